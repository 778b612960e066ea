"""Who may call which method: each that is served, from a peer that may not administrate and from one that may.

A broker that takes administration from another address than ours treats this machine as any other one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from rmqpull_broker.testing import running_broker
from rmqpull_proto import columns
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc
from rmqpull_proto.rmqpull.v1 import stages_pb2 as stages
from tests.harness.rpc_client import METHODS, Connect, OpenTelemetryStream, RpcClient, list_methods

ELSEWHERE = "192.0.2.1"

OPEN = """
    QueryRoute QueryAssignment Telemetry Heartbeat NotifyClientTermination SendMessage EndTransaction RecallMessage
    ReceiveMessage AckMessage ChangeInvisibleDuration ForwardMessageToDeadLetterQueue PullMessage UpdateOffset
    GetOffset QueryOffset

    DescribeServer PublishColumns PullColumns QueryBounds CutRanges CommitOffsets ReportRowsLost SendMessageBack

    StageColumns KeepStages CommitStages DropStages

    ListTopics DescribeTopic ListGroups DescribeGroup QueryLag ListInFlight ListClients ListLocks LockQueues
    UnlockQueues ListFaultRules GetClock GetProperties
""".split()  # noqa: SIM905 (a page of names as a list)
"""What producers and consumers send, and what only reads."""

READING = [name for name in OPEN if name.startswith(("List", "Describe", "Query", "Get"))]

OPEN_FOR_WHAT_IS_NEW = ["PutTopic", "PutGroup"]

ADMINISTRATION = """
    DeleteTopic DeleteGroup ResetOffsets PutFaultRule DeleteFaultRules ReleaseFault AdvanceClock ExpireNow
""".split()  # noqa: SIM905 (as above)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """A broker on which this machine may not administrate. Nothing that it calls changes it."""
    with running_broker({"orders": 2}, clock="manual", admin_from=ELSEWHERE) as broker:
        yield broker.endpoints


@pytest.fixture
def stranger(elsewhere: str, connect: Connect) -> RpcClient:
    return connect(elsewhere)


def test_each_method_is_open_or_administration() -> None:
    served = list_methods()
    assert sorted([*OPEN, *OPEN_FOR_WHAT_IS_NEW, *ADMINISTRATION]) == sorted(served)


def status_of(client: RpcClient, name: str) -> Any:
    """The status of a call with an empty request."""
    response = client.call(name, METHODS[name].request())
    return (response[0] if isinstance(response, list) else response).status


def is_refused(status: Any) -> bool:
    return status.code == v2.Code.FORBIDDEN and "--admin-from" in status.message


@pytest.mark.parametrize("name", ADMINISTRATION)
def test_administration_is_refused_before_its_fields_are_read(stranger: RpcClient, name: str) -> None:
    status = status_of(stranger, name)
    assert v2.Code.Name(status.code) == "FORBIDDEN"
    assert status.message.startswith(f"{name} is administration: this broker accepts it from {ELSEWHERE}, not from ")
    assert "--admin-from 192.0.2.1,127.0.0.1" in status.message


@pytest.mark.parametrize("name", [name for name in (*OPEN, *OPEN_FOR_WHAT_IS_NEW) if name != "Telemetry"])
def test_other_methods_are_open(stranger: RpcClient, name: str) -> None:
    assert not is_refused(status_of(stranger, name))


def test_a_stream_of_requests_is_open(stranger: RpcClient, open_telemetry_stream: OpenTelemetryStream) -> None:
    open_telemetry_stream(stranger, "PRODUCER", "orders")


def test_peers_on_loopback_may_administrate_by_default(connect: Connect) -> None:
    with running_broker(clock="manual", admin_from="loopback") as broker:
        client = connect(broker.endpoints)
        assert [name for name in ADMINISTRATION if is_refused(status_of(client, name))] == []


def test_bytes_that_are_no_request_are_refused_as_administration(stranger: RpcClient) -> None:
    method = METHODS["DeleteTopic"]
    call = stranger.channel.unary_unary(method.path, lambda data: data, method.response.FromString)
    assert is_refused(call(b"\xff\xff", timeout=60).status)


# --- what everybody may create, and nobody else may change ------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "creation", "change", "what"),
    [
        (
            "PutTopic",
            rpc.PutTopicRequest(name="sales", read_queue_nums=4),
            rpc.PutTopicRequest(name="sales", perm=0),
            "topic sales",
        ),
        (
            "PutGroup",
            rpc.PutGroupRequest(name="g", retry_max_times=3),
            rpc.PutGroupRequest(name="g", consume_enable=False),
            "group g",
        ),
    ],
)
@pytest.mark.parametrize(("admin_from", "may_change"), [(ELSEWHERE, False), ("loopback", True)])
def test_what_is_new_or_the_same_is_open_and_a_change_is_not(
    connect: Connect, name: str, creation: Any, change: Any, what: str, admin_from: str, may_change: bool
) -> None:
    with running_broker(admin_from=admin_from) as broker:
        client = connect(broker.endpoints)
        for mode in (rpc.CREATE_OR_UPDATE, rpc.CREATE, rpc.UPDATE):
            creation.mode = mode
            assert client.code(name, creation) == "OK"
        for mode in (rpc.CREATE_OR_UPDATE, rpc.UPDATE):
            change.mode = mode
            status = client.call(name, change).status
            assert is_refused(status) is not may_change
            if not may_change:
                assert status.message.startswith(f"{name} would change {what}, which is administration: ")


# --- stages: whoever knows the id of their transaction owns them ------------------------------------------------------

MINE, THEIRS = stages.Transaction(id="mine"), stages.Transaction(id="an id that nobody else knows")


def stage(client: RpcClient, transaction: stages.Transaction, stage_id: str) -> str:
    batch = pa.record_batch({"body": pa.array([b"staged"], pa.binary())})
    stream = columns.write_stream(batch.schema, [batch])
    request = stages.StageColumnsRequest(transaction=transaction, stage_id=stage_id, topic="orders", arrow_ipc=stream)
    return client.code("StageColumns", request)


def test_tasks_and_drivers_on_any_host_stage_keep_commit_and_drop(connect: Connect) -> None:
    with running_broker({"orders": 1}, admin_from=ELSEWHERE) as broker:
        client = connect(broker.endpoints)
        named = [stages.CommittedStage(stage_id="a", call_count=1)]
        assert stage(client, MINE, "a") == "OK"
        assert client.code("KeepStages", stages.KeepStagesRequest(transaction=MINE)) == "OK"
        assert client.code("CommitStages", stages.CommitStagesRequest(transaction=MINE, stages=named)) == "OK"
        assert client.code("DropStages", stages.DropStagesRequest(transaction=MINE)) == "OK"
        assert [row.message.body for row in broker.messages("orders")] == [b"staged"]


def test_a_stage_cannot_be_reached_without_the_id_of_its_transaction(connect: Connect) -> None:
    with running_broker({"orders": 1}, admin_from=ELSEWHERE) as broker:
        client = connect(broker.endpoints)
        named = [stages.CommittedStage(stage_id="a", call_count=1)]
        assert stage(client, THEIRS, "a") == "OK"
        assert stage(client, MINE, "a") == "PRECONDITION_FAILED"
        assert client.code("CommitStages", stages.CommitStagesRequest(transaction=MINE, stages=named)) != "OK"
        assert client.code("DropStages", stages.DropStagesRequest(transaction=MINE)) == "OK"
        assert client.code("CommitStages", stages.CommitStagesRequest(transaction=THEIRS, stages=named)) == "OK"


@pytest.mark.parametrize("name", READING)
def test_no_call_tells_the_id_of_a_transaction(elsewhere: str, connect: Connect, name: str) -> None:
    client = connect(elsewhere)
    assert stage(client, THEIRS, "theirs") == "OK"
    request = METHODS[name].request()
    for field, value in {"name": "orders", "with_system_topics": True}.items():
        if field in request.DESCRIPTOR.fields_by_name:
            setattr(request, field, value)
    assert THEIRS.id not in str(client.call(name, request))
