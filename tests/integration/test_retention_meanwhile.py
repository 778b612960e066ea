"""Messages expire while a query reads. It continues without repeats and reads all that is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.testing import RunningBroker, running_broker
from tests.harness.server_kinds import needs
from tests.harness.spark_queries import Queries

pytestmark = needs("manual clock")
ROUNDS = 12
PER_ROUND = 40
BODY_BYTES = 4_000
PULLS = {"columns": "PullColumns", "none": "PullMessage"}


@pytest.fixture
def forgetful(kind: str, tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker that keeps messages for an hour, in small segments, with a manual clock."""
    with running_broker(
        {"orders": 2},
        data_dir=str(tmp_path / "data"),
        extensions="columns,admin" if kind == "columns" else "admin",
        clock="manual",
        properties=BrokerProperties(file_reserved_time=1, mapped_file_size_commit_log=64 << 10),
    ) as broker:
        yield broker


def test_a_query_continues_while_messages_expire(queries: Queries, forgetful: RunningBroker, kind: str) -> None:
    """Acceptance case 55. In every batch some of the planned messages expire."""
    sent: dict[bytes, int] = {}

    def send(round_: int) -> None:
        bodies = [b"%03d %03d " % (round_, number) + bytes(BODY_BYTES) for number in range(PER_ROUND)]
        sent.update({body[:7]: round_ for body in bodies})
        forgetful.send("orders", *bodies)

    def age(batch_id: int) -> None:
        """Before the rows of the batch are pulled: planned messages may be an hour old by then."""
        if batch_id < ROUNDS:
            send(batch_id + 1)
            forgetful.clock.advance(minutes=25)

    send(0)
    stream = (
        queries.session.readStream.format("rmqpull")
        .options(endpoints=forgetful.endpoints, topic="orders", startingOffsets="earliest", consumerGroup="g")
        .options(failOnDataLoss="false", maxOffsetsPerTrigger=str(PER_ROUND // 2), trigger="processingTime")
        .options(idleWaitMs="0")  # else the broker would park the pull until its clock moves
        .load()
    )
    run = queries.start(stream, age)
    run.process_all()
    run.query.stop()

    places = [(row["queueId"], row["queueOffset"]) for row in run.rows]
    assert len(set(places)) == len(places)
    bodies = [bytes(row["body"])[:7] for row in run.rows]
    assert len(set(bodies)) == len(bodies)
    assert set(bodies) <= sent.keys()
    # Some messages must be lost, or this proves nothing. The last ones are not.
    assert len(bodies) < len(sent)
    assert {body for body, round_ in sent.items() if round_ == ROUNDS} <= set(bodies)
    bounds = forgetful.bounds("orders")
    assert all(limits.min_offset > 0 for limits in bounds.values())
