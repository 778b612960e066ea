"""Which methods are served, and how errors of handlers are answered."""

from __future__ import annotations

import logging
from typing import Any, NoReturn

import grpc
import pytest

from rmqpull_broker.server.grpc import registry
from rmqpull_broker.testing import running_broker
from rmqpull_proto import rpc
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.rpc_client import Connect, RpcClient

SERVED = {
    *("QueryRoute", "QueryAssignment", "Telemetry", "Heartbeat", "NotifyClientTermination", "SendMessage"),
    *("PullMessage", "UpdateOffset", "GetOffset", "QueryOffset"),
}
UNSERVED = sorted(set(rpc.MESSAGING.methods) - set(registry.MESSAGING_HANDLERS))


def status_of(client: RpcClient, method: rpc.Method) -> grpc.StatusCode:
    """The gRPC status of a call with an empty request."""
    serialize = method.request.SerializeToString
    stub: Any = {
        (False, False): client.channel.unary_unary,
        (False, True): client.channel.unary_stream,
        (True, True): client.channel.stream_stream,
    }[method.client_streaming, method.server_streaming](method.path, serialize, method.response.FromString)
    request: Any = iter([method.request()]) if method.client_streaming else method.request()
    answered = stub(request, timeout=60) if method.server_streaming else stub.future(request, timeout=60)
    code: grpc.StatusCode = answered.code()
    return code


def test_the_pull_side_of_the_standard_service_is_served() -> None:
    assert set(registry.MESSAGING_HANDLERS) >= SERVED


def test_the_whole_column_service_is_served() -> None:
    assert set(registry.COLUMN_HANDLERS) == set(rpc.COLUMNS.methods)


def test_the_whole_stage_service_is_served() -> None:
    assert set(registry.STAGE_HANDLERS) == set(rpc.STAGES.methods)


def test_the_whole_admin_service_is_served() -> None:
    assert set(registry.ADMIN_HANDLERS) == set(rpc.ADMIN.methods)


@pytest.mark.parametrize(
    ("extensions", "columns", "admin"),
    [
        ("columns,admin", grpc.StatusCode.OK, grpc.StatusCode.OK),
        ("columns", grpc.StatusCode.OK, grpc.StatusCode.UNIMPLEMENTED),
        ("admin", grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.OK),
        ("none", grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNIMPLEMENTED),
    ],
)
def test_each_extension_can_be_enabled(
    connect: Connect, extensions: str, columns: grpc.StatusCode, admin: grpc.StatusCode
) -> None:
    with running_broker(extensions=extensions) as broker:
        client = connect(broker.endpoints)
        assert status_of(client, rpc.COLUMNS.methods["DescribeServer"]) is columns
        assert status_of(client, rpc.ADMIN.methods["ListTopics"]) is admin


@pytest.mark.parametrize("name", UNSERVED)
def test_an_unserved_method_is_unimplemented(client: RpcClient, name: str) -> None:
    assert status_of(client, rpc.MESSAGING.methods[name]) is grpc.StatusCode.UNIMPLEMENTED


NEEDS_SETTINGS = {"ReceiveMessage": {v2.Code.INTERNAL_SERVER_ERROR}}


@pytest.mark.parametrize("name", sorted(set(registry.MESSAGING_HANDLERS) - {"Telemetry"}))
def test_an_empty_request_gets_a_status_and_no_grpc_error(client: RpcClient, name: str) -> None:
    method = rpc.MESSAGING.methods[name]
    answer = client.call(name, method.request())
    status = (answer[0] if isinstance(answer, list) else answer).status
    # A receive without settings is answered as Apache's proxy does (rules 5.12, row 1).
    unexpected = {v2.Code.OK, v2.Code.INTERNAL_SERVER_ERROR, v2.Code.CODE_UNSPECIFIED} - NEEDS_SETTINGS.get(name, set())
    assert status.code not in unexpected
    assert status.message


@pytest.mark.parametrize("name", sorted(rpc.COLUMNS.methods))
def test_without_extensions_the_column_service_is_unimplemented(connect: Connect, name: str) -> None:
    with running_broker(topics={"single": 1}, extensions="none") as broker:
        assert status_of(connect(broker.endpoints), rpc.COLUMNS.methods[name]) is grpc.StatusCode.UNIMPLEMENTED


def test_without_extensions_the_standard_service_works_alone(connect: Connect) -> None:
    with running_broker(topics={"single": 1}, extensions="none") as broker:
        client = connect(broker.endpoints)
        client.send_bodies("single", b"a")
        assert client.pull(v2.MessageQueue(topic=v2.Resource(name="single")), 0).bodies == [b"a"]


@pytest.mark.parametrize("name", ["QueryRoute", "PullMessage"])
def test_an_unexpected_error_is_an_internal_error_and_logged_once(
    name: str, connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> NoReturn:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setitem(registry.MESSAGING_HANDLERS, name, fail)
    with running_broker(topics={"single": 1}) as broker, caplog.at_level(logging.WARNING):
        client = connect(broker.endpoints)
        answer = client.call(name, rpc.MESSAGING.methods[name].request())
        status = (answer[0] if isinstance(answer, list) else answer).status
        assert status.code == v2.Code.INTERNAL_SERVER_ERROR
        assert "a mistake of ours" in status.message
        client.send_bodies("single", b"the broker continues")
    (record,) = caplog.records
    assert name in record.getMessage()
    assert record.exc_info


def test_a_refusal_is_not_logged(client: RpcClient, caplog: pytest.LogCaptureFixture) -> None:
    assert client.code("QueryRoute", service.QueryRouteRequest(topic=v2.Resource(name="unknown"))) == "TOPIC_NOT_FOUND"
    assert not caplog.records
