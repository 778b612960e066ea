"""NotifyClientTermination over gRPC (rules 5.16)."""

from __future__ import annotations

from rmqpull_broker.testing import RunningBroker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.rpc_client import Connect, RpcClient
from tests.harness.telemetry import OpenTelemetryStream


def leave(client: RpcClient, group: str | None = None) -> tuple[str, str]:
    resource = None if group is None else v2.Resource(name=group)
    status = client.call("NotifyClientTermination", service.NotifyClientTerminationRequest(group=resource)).status
    return v2.Code.Name(status.code), status.message


def test_a_producer_leaves_once_with_an_empty_request(
    client: RpcClient, open_telemetry_stream: OpenTelemetryStream
) -> None:
    open_telemetry_stream(client, "PRODUCER", "orders")
    assert leave(client) == ("OK", "OK")
    assert leave(client) == ("UNRECOGNIZED_CLIENT_TYPE", "cannot find client settings for this client")


def test_a_consumer_names_its_group(client: RpcClient, open_telemetry_stream: OpenTelemetryStream) -> None:
    open_telemetry_stream(client, "PUSH_CONSUMER", "orders", group="readers")
    assert leave(client)[0] == leave(client, "a.b")[0] == "ILLEGAL_CONSUMER_GROUP"
    assert leave(client, "readers") == ("OK", "OK")
    assert client.code("Heartbeat", service.HeartbeatRequest()) == "UNRECOGNIZED_CLIENT_TYPE"


def test_a_client_can_leave_a_group_that_does_not_exist(
    client: RpcClient, open_telemetry_stream: OpenTelemetryStream
) -> None:
    open_telemetry_stream(client, "PUSH_CONSUMER", "orders", group="readers")
    assert leave(client, "others") == ("OK", "OK")


def test_the_client_closes_its_stream(client: RpcClient, open_telemetry_stream: OpenTelemetryStream) -> None:
    stream = open_telemetry_stream(client, "PRODUCER", "orders")
    leave(client)
    stream.end()
    assert stream.outcome() == ("OK", "")


def test_others_stay(broker: RunningBroker, connect: Connect, open_telemetry_stream: OpenTelemetryStream) -> None:
    ann, bob = (connect(broker.endpoints, name) for name in ("ann", "bob"))
    for client in (ann, bob):
        open_telemetry_stream(client, "PUSH_CONSUMER", "orders", group="readers")
    assert leave(ann, "readers") == ("OK", "OK")
    assert bob.code("Heartbeat", service.HeartbeatRequest(group=v2.Resource(name="readers"))) == "OK"


def test_a_caller_without_a_client_id_is_refused(broker: RunningBroker, connect: Connect) -> None:
    assert leave(connect(broker.endpoints, client_id=""))[0] == "CLIENT_ID_REQUIRED"
