"""Transactional messages: a query reads committed messages only."""

from __future__ import annotations

from rmqpull_broker.core.model import TopicType
from tests.harness.servers import StartServer
from tests.harness.spark_queries import Queries, Topic


def test_only_committed_messages_are_read_and_others_leave_no_gap(queries: Queries, start_server: StartServer) -> None:
    """Acceptance case 28. RocketMQ keeps half messages apart: unlike Kafka's, they take no offset of the topic."""
    server = start_server({"payments": (1, TopicType.TRANSACTION)})
    payments = Topic("payments", server)
    committed, rolled_back, open_still = (
        server.begin("payments", body) for body in (b"committed", b"rolled-back", b"open")
    )
    run = queries.start(queries.stream(payments))
    run.process_all()
    assert run.rows == []

    rolled_back.roll_back()
    committed.commit()
    run.process_all()
    assert [(bytes(row["body"]), row["queueOffset"]) for row in run.rows] == [(b"committed", 0)]
    run.query.stop()

    open_still.commit()
    later = queries.run(queries.stream(payments)).rows
    assert [(bytes(row["body"]), row["queueOffset"]) for row in later] == [(b"open", 1)]
    assert [bytes(row["body"]) for row in queries.batch(payments).collect()] == [b"committed", b"open"]
