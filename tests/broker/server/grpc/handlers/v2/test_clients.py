"""Heartbeat and NotifyClientTermination over gRPC (rules 5.10, 5.16)."""

from __future__ import annotations

import asyncio

import pytest

from rmqpull_broker.core.clients.members import ClientChannel, ConsumerData
from rmqpull_broker.core.clients.settings import ClientProfile
from rmqpull_broker.core.errors import UnrecognizedClientType
from rmqpull_broker.server.grpc.handlers.v2.clients import heartbeat
from rmqpull_broker.testing import RunningBroker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.handlers import HandlerHarness
from tests.harness.rpc_client import Connect, OpenTelemetryStream, RpcClient

# --- Heartbeat --------------------------------------------------------------------------------------------------------


def beat(client: RpcClient, group: str | None = None) -> tuple[str, str]:
    resource = None if group is None else v2.Resource(name=group)
    status = client.call("Heartbeat", service.HeartbeatRequest(group=resource)).status
    return v2.Code.Name(status.code), status.message


def test_a_client_without_settings_is_not_recognized(client: RpcClient) -> None:
    assert beat(client, "readers") == ("UNRECOGNIZED_CLIENT_TYPE", "cannot find client settings for this client")


@pytest.mark.parametrize("client_type", ["PUSH_CONSUMER", "SIMPLE_CONSUMER", "PULL_CONSUMER"])
@pytest.mark.proves("Client type PULL_CONSUMER")
def test_a_consumer_names_its_group(
    client: RpcClient, open_telemetry_stream: OpenTelemetryStream, client_type: str
) -> None:
    open_telemetry_stream(client, client_type, "orders", group="readers")
    assert beat(client, "readers") == ("OK", "OK")
    assert beat(client, "a.b")[0] == beat(client)[0] == "ILLEGAL_CONSUMER_GROUP"


@pytest.mark.parametrize("topics", [["orders"], []])
def test_a_producer_names_nothing(
    client: RpcClient, open_telemetry_stream: OpenTelemetryStream, topics: list[str]
) -> None:
    open_telemetry_stream(client, "PRODUCER", *topics)
    assert beat(client) == ("OK", "OK")


def test_another_type_is_not_recognized(client: RpcClient, open_telemetry_stream: OpenTelemetryStream) -> None:
    open_telemetry_stream(client, "LITE_PUSH_CONSUMER", "orders")
    assert beat(client) == ("UNRECOGNIZED_CLIENT_TYPE", "LITE_PUSH_CONSUMER")


def test_settings_stay_when_their_stream_ends(client: RpcClient, open_telemetry_stream: OpenTelemetryStream) -> None:
    stream = open_telemetry_stream(client, "PRODUCER", "orders")
    stream.end()
    assert stream.outcome() == ("OK", "")
    assert beat(client) == ("OK", "OK")


def test_heartbeat_needs_a_client_id(broker: RunningBroker, connect: Connect) -> None:
    assert beat(connect(broker.endpoints, client_id=""))[0] == "CLIENT_ID_REQUIRED"


def test_a_client_that_terminates_during_its_heartbeat_stays_removed() -> None:
    async def story() -> None:
        handlers = HandlerHarness()
        profile = ClientProfile(ClientChannel("tester", "tester"), "PULL_CONSUMER", consumer=ConsumerData("readers"))
        handlers.clients.introduce(profile, [])
        request = service.HeartbeatRequest(group=v2.Resource(name="readers"))
        beating = asyncio.ensure_future(heartbeat(handlers.service, request, handlers.caller()))
        await asyncio.sleep(0)
        handlers.clients.terminate("tester", None)
        with pytest.raises(UnrecognizedClientType):
            await beating
        assert handlers.clients.list_clients() == []

    asyncio.run(story())


# --- NotifyClientTermination ------------------------------------------------------------------------------------------


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


def test_a_leaving_consumer_names_its_group(client: RpcClient, open_telemetry_stream: OpenTelemetryStream) -> None:
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


@pytest.mark.proves("NotifyClientTermination of a client that is not registered and names no language")
def test_who_is_not_registered_cannot_leave(client: RpcClient) -> None:
    answer = client.call("NotifyClientTermination", service.NotifyClientTerminationRequest())
    assert answer.status.code == v2.Code.UNRECOGNIZED_CLIENT_TYPE


def test_termination_needs_a_client_id(broker: RunningBroker, connect: Connect) -> None:
    assert leave(connect(broker.endpoints, client_id=""))[0] == "CLIENT_ID_REQUIRED"
