"""Transactions over gRPC: staged, kept alive, committed, dropped, and after a restart."""

from __future__ import annotations

import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from rmqpull_broker.core.errors import IllegalTopic
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.testing import running_broker
from rmqpull_proto import columns
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rmqpull.v1 import columns_pb2
from rmqpull_proto.rmqpull.v1 import stages_pb2 as rpc
from tests.harness.rpc_client import Connect, RpcClient

if TYPE_CHECKING:
    from rmqpull_broker.testing import RunningBroker

BATCH = rpc.Transaction(id="query", batch_id=7)
MINUTE_MS = 60_000


def hand_over(client: RpcClient, *bodies: bytes, stage_id: str = "a", sequence: int = 0, timeout_ms: int = 0) -> bool:
    """Stages messages of ``orders``. Returns whether the transaction was already committed."""
    batch = pa.record_batch({"body": pa.array(bodies, pa.binary())})
    request = rpc.StageColumnsRequest(
        transaction=BATCH,
        stage_id=stage_id,
        sequence=sequence,
        topic="orders",
        arrow_ipc=columns.write_stream(batch.schema, [batch]),
        timeout_ms=timeout_ms,
    )
    answer = client.call("StageColumns", request)
    assert answer.status.code == 20000, answer.status
    return bool(answer.is_committed)


def commit(*named: tuple[str, int]) -> rpc.CommitStagesRequest:
    stages = [rpc.CommittedStage(stage_id=stage_id, call_count=count) for stage_id, count in named]
    return rpc.CommitStagesRequest(transaction=BATCH, stages=stages)


def seen(broker: RunningBroker) -> list[bytes]:
    return [row.message.body for row in broker.messages("orders")]


def test_a_commit_makes_a_transaction_readable_once(connect: Connect) -> None:
    with running_broker(topics={"orders": 1}) as broker:
        client = connect(broker.endpoints)
        assert not hand_over(client, b"1")
        assert not hand_over(client, b"2", sequence=1)
        assert seen(broker) == []
        first, again = (client.call("CommitStages", commit(("a", 2))) for _ in range(2))
        assert [first.was_committed, again.was_committed] == [False, True]
        assert seen(broker) == [b"1", b"2"]
        assert hand_over(client, b"3", stage_id="b")
        assert seen(broker) == [b"1", b"2"]


def test_concurrent_commits_commit_once_and_all_wait_until_it_is_stored(connect: Connect) -> None:
    with running_broker(topics={"orders": 1}) as broker:
        client = connect(broker.endpoints)
        for sequence in range(20):
            hand_over(client, b"%d" % sequence, sequence=sequence)
        started = [client.start("CommitStages", commit(("a", 20))) for _ in range(5)]
        for call in started:
            assert call.await_response().status.code == 20000
            assert len(seen(broker)) == 20
        assert sorted(call.await_response().was_committed for call in started) == [False, True, True, True, True]


def test_stages_are_dropped_unless_they_are_kept_alive(connect: Connect) -> None:
    with running_broker(topics={"orders": 1}, clock="manual") as broker:
        client = connect(broker.endpoints)
        hand_over(client, b"1", timeout_ms=MINUTE_MS)
        broker.clock.advance(seconds=50)
        client.call("KeepStages", rpc.KeepStagesRequest(transaction=BATCH, timeout_ms=MINUTE_MS))
        broker.clock.advance(seconds=50)
        assert broker.look(lambda state: list(state.stages.all())) == ["a"]
        broker.clock.advance(seconds=11)
        assert broker.look(lambda state: list(state.stages.all())) == []
        assert client.code("CommitStages", commit(("a", 1))) == "PRECONDITION_FAILED"
        assert seen(broker) == []


def test_a_dropped_transaction_is_deleted(connect: Connect) -> None:
    with running_broker(topics={"orders": 1}) as broker:
        client = connect(broker.endpoints)
        hand_over(client, b"1")
        client.call("DropStages", rpc.DropStagesRequest(transaction=BATCH))
        assert client.code("CommitStages", commit(("a", 1))) == "PRECONDITION_FAILED"


def test_stages_and_commits_survive_a_restart(connect: Connect, tmp_path: Path) -> None:
    with running_broker(topics={"orders": 1}, data_dir=str(tmp_path)) as broker:
        hand_over(connect(broker.endpoints), b"1")
    with running_broker(topics={"orders": 1}, data_dir=str(tmp_path)) as broker:
        client = connect(broker.endpoints)
        hand_over(client, b"2", sequence=1)
        assert not client.call("CommitStages", commit(("a", 2))).was_committed
        assert seen(broker) == [b"1", b"2"]
    with running_broker(topics={"orders": 1}, data_dir=str(tmp_path)) as broker:
        assert connect(broker.endpoints).call("CommitStages", commit(("a", 2))).was_committed
        assert seen(broker) == [b"1", b"2"]


def test_a_broker_whose_data_is_older_than_the_query_warns_and_counts_the_gap(
    connect: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The data directory of batch 4 is restored from a backup after batch 6. A repeated commit does not warn again."""
    data_dir, backup = tmp_path / "data", tmp_path / "backup"

    def commit_batch(client: RpcClient, number: int, **fields: Any) -> rpc.CommitStagesResponse:
        response: rpc.CommitStagesResponse = client.call(
            "CommitStages", rpc.CommitStagesRequest(transaction=rpc.Transaction(id="query", batch_id=number), **fields)
        )
        return response

    with running_broker(topics={"orders": 1}, data_dir=str(data_dir)) as broker:
        client = connect(broker.endpoints)
        assert client.call("DescribeServer", columns_pb2.DescribeServerRequest()).tells_commit_gaps
        assert [commit_batch(client, number).missing_count for number in range(5)] == [0] * 5
    shutil.copytree(data_dir, backup)
    with running_broker(topics={"orders": 1}, data_dir=str(data_dir)) as broker:
        assert [commit_batch(connect(broker.endpoints), number).missing_count for number in (5, 6)] == [0, 0]
    assert "never committed here" not in caplog.text
    with running_broker(topics={"orders": 1}, data_dir=str(backup)) as broker:
        client = connect(broker.endpoints)
        refused = commit_batch(client, 7, refuse_gap=True)
        assert (refused.is_refused, refused.missing_count) == (True, 2)
        committed, again = commit_batch(client, 7), commit_batch(client, 7, refuse_gap=True)
        assert (committed.is_refused, committed.missing_count, committed.was_committed) == (False, 2, False)
        assert (again.is_refused, again.missing_count, again.was_committed) == (False, 0, True)
    assert [message for message in caplog.messages if "never committed here" in message] == [
        f"batch 7 of query {what}, and the 2 before it were never committed here: the query's checkpoint is newer than "
        "the data of this broker, or another broker has them"
        for what in ("was refused", "is committed")
    ]


def of_topics(topics: dict[str, list[bytes]], **others: Any) -> rpc.StageColumnsRequest:
    """Makes a call with messages of several topics."""
    batch = pa.record_batch({"body": pa.array([body for bodies in topics.values() for body in bodies], pa.binary())})
    return rpc.StageColumnsRequest(
        transaction=BATCH,
        stage_id="a",
        arrow_ipc=columns.write_stream(batch.schema, [batch]),
        parts=[columns_pb2.TopicPart(topic=topic, row_count=len(bodies)) for topic, bodies in topics.items()],
        **others,
    )


def test_calls_of_several_topics_survive_restarts_before_and_after_the_commit(connect: Connect, tmp_path: Path) -> None:
    topics = {"orders": 1, "paid": 1}
    with running_broker(topics=topics, data_dir=str(tmp_path)) as broker:
        request = of_topics({"orders": [b"1", b"2"], "paid": [b"3"]})
        assert connect(broker.endpoints).call("StageColumns", request).status.code == 20000
    with running_broker(topics=topics, data_dir=str(tmp_path)) as broker:
        client = connect(broker.endpoints)
        request = of_topics({"paid": [b"4"], "orders": [b"5"]}, sequence=1)
        assert client.call("StageColumns", request).status.code == 20000
        assert seen(broker) == []
        client.call("CommitStages", commit(("a", 2)))
    with running_broker(topics=topics, data_dir=str(tmp_path)) as broker:
        assert seen(broker) == [b"1", b"2", b"5"]
        assert [row.message.body for row in broker.messages("paid")] == [b"3", b"4"]
        assert broker.look(lambda state: list(state.stages.all())) == []


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (of_topics({"orders": [b"1"]}, topic="orders"), "has both the topic orders and parts"),
        (of_topics({"orders": [b"1"]}, slice_rows_min=1), "slice_rows_min belongs to each of them"),
        (of_topics({f"topic-{number}": [b"1"] for number in range(1_001)}), "1001 topics is above the max 1000"),
    ],
    ids=["a topic beside its parts", "a minimum beside its parts", "too many topics"],
)
def test_invalid_parts_are_refused(client: RpcClient, request_: rpc.StageColumnsRequest, sentence: str) -> None:
    answer = client.call("StageColumns", request_)
    assert answer.status.code == v2.Code.BAD_REQUEST
    assert sentence in answer.status.message


def test_a_restart_restores_stages_unless_retention_reached_their_rows(connect: Connect, tmp_path: Path) -> None:
    """An open stage does not stop retention, however long its writer keeps it."""
    properties = BrokerProperties(file_reserved_time=2, mapped_file_size_commit_log=64 << 10)

    def broker() -> AbstractContextManager[RunningBroker]:
        return running_broker({"orders": 1}, data_dir=str(tmp_path), clock="manual", properties=properties)

    bodies = [b"%03d" % number + bytes(10_000) for number in range(40)]
    with broker() as running:
        client = connect(running.endpoints)
        for sequence, body in enumerate(bodies):
            hand_over(client, body, sequence=sequence, timeout_ms=24 * 60 * MINUTE_MS)
        running.send("orders", *(b"old" + bytes(10_000) for _ in range(20)))
        running.clock.advance(hours=1)
    with broker() as running:
        client = connect(running.endpoints)
        hand_over(client, b"more", sequence=len(bodies), timeout_ms=24 * 60 * MINUTE_MS)
        running.clock.advance(hours=3)
        assert len(seen(running)) < 20
        refused = client.call("CommitStages", commit(("a", len(bodies) + 1)))
        assert "stage a was dropped" in refused.status.message
        assert "fileReservedTime" in refused.status.message
        for sequence, body in enumerate(bodies):
            hand_over(client, body, stage_id="b", sequence=sequence)
    with broker() as running:
        client = connect(running.endpoints)
        assert client.call("CommitStages", commit(("b", len(bodies)))).status.code == v2.Code.OK
        assert [body for body in seen(running) if not body.startswith(b"old")] == bodies


def test_topics_cannot_have_the_names_of_stages() -> None:
    with (
        running_broker(topics={"orders": 1}) as broker,
        pytest.raises(IllegalTopic, match="conflict with system topic"),
    ):
        broker.create_topic("%STAGE%a")


@pytest.mark.parametrize("timeout_ms", [-1, 24 * 60 * MINUTE_MS + 1])
def test_a_timeout_out_of_range_is_refused(client: RpcClient, timeout_ms: int) -> None:
    assert client.code("KeepStages", rpc.KeepStagesRequest(transaction=BATCH, timeout_ms=timeout_ms)) == "BAD_REQUEST"


def test_a_call_has_slices_of_at_least_its_minimum_once_it_is_committed(connect: Connect) -> None:
    with running_broker(topics={"orders": 4, "paid": 4}) as broker:
        client = connect(broker.endpoints)
        request = of_topics({"orders": [b"1"] * 8, "paid": [b"2"] * 8})
        request.parts[1].slice_rows_min = 4
        client.call("StageColumns", request)
        request = of_topics({"orders": [b"1"] * 8}, sequence=1)
        del request.parts[:]
        request.topic, request.slice_rows_min = "orders", 8
        client.call("StageColumns", request)
        client.call("CommitStages", commit(("a", 2)))
        assert sorted(bounds.max_offset for bounds in broker.bounds("orders").values()) == [2, 2, 2, 10]
        assert sorted(bounds.max_offset for bounds in broker.bounds("paid").values()) == [0, 0, 4, 4]


def test_the_keys_select_the_queue_on_request(connect: Connect) -> None:
    with running_broker(topics={"orders": 4}) as broker:
        client = connect(broker.endpoints)
        keys = pa.array([["k"]] * 8, columns.KEYS)
        batch = pa.record_batch({"body": pa.array([b"x"] * 8, pa.binary()), "keys": keys})
        request = rpc.StageColumnsRequest(
            transaction=BATCH,
            stage_id="a",
            topic="orders",
            arrow_ipc=columns.write_stream(batch.schema, [batch]),
            queue_selector=columns_pb2.BY_KEYS,
        )
        client.call("StageColumns", request)
        client.call("CommitStages", commit(("a", 1)))
        assert sorted(bounds.max_offset for bounds in broker.bounds("orders").values()) == [0, 0, 0, 8]
