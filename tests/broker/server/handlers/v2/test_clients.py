"""Heartbeat over gRPC (rules 5.10)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rmqpull_broker.core.clients.members import ClientChannel, ConsumerData
from rmqpull_broker.core.clients.settings import ClientProfile
from rmqpull_broker.core.errors import UnrecognizedClientType
from rmqpull_broker.server.handlers.v2.clients import heartbeat
from rmqpull_broker.testing import RunningBroker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service

if TYPE_CHECKING:
    from tests.broker.conftest import Client, Connect
    from tests.broker.server.conftest import Edge, Introduce


def beat(client: Client, group: str | None = None) -> tuple[str, str]:
    resource = None if group is None else v2.Resource(name=group)
    status = client.call("Heartbeat", service.HeartbeatRequest(group=resource)).status
    return v2.Code.Name(status.code), status.message


def test_a_client_without_settings_is_not_recognized(client: Client) -> None:
    assert beat(client, "readers") == ("UNRECOGNIZED_CLIENT_TYPE", "cannot find client settings for this client")


@pytest.mark.parametrize("client_type", ["PUSH_CONSUMER", "SIMPLE_CONSUMER", "PULL_CONSUMER"])
@pytest.mark.proves("Client type PULL_CONSUMER")
def test_a_consumer_names_its_group(client: Client, introduce: Introduce, client_type: str) -> None:
    introduce(client, client_type, "orders", group="readers")
    assert beat(client, "readers") == ("OK", "OK")
    assert beat(client, "a.b")[0] == beat(client)[0] == "ILLEGAL_CONSUMER_GROUP"


@pytest.mark.parametrize("topics", [["orders"], []])
def test_a_producer_names_nothing(client: Client, introduce: Introduce, topics: list[str]) -> None:
    introduce(client, "PRODUCER", *topics)
    assert beat(client) == ("OK", "OK")


def test_another_type_is_not_recognized(client: Client, introduce: Introduce) -> None:
    introduce(client, "LITE_PUSH_CONSUMER", "orders")
    assert beat(client) == ("UNRECOGNIZED_CLIENT_TYPE", "LITE_PUSH_CONSUMER")


def test_settings_outlive_their_stream(client: Client, introduce: Introduce) -> None:
    conversation = introduce(client, "PRODUCER", "orders")
    conversation.end()
    assert conversation.outcome() == ("OK", "")
    assert beat(client) == ("OK", "OK")


def test_a_caller_without_a_client_id_is_refused(broker: RunningBroker, connect: Connect) -> None:
    assert beat(connect(broker.endpoints, client_id=""))[0] == "CLIENT_ID_REQUIRED"


def test_a_client_that_says_good_bye_while_its_heartbeat_is_kept_stays_away(new_edge: type[Edge]) -> None:
    async def story() -> None:
        edge = new_edge()
        profile = ClientProfile(ClientChannel("tester", "tester"), "PULL_CONSUMER", consumer=ConsumerData("readers"))
        edge.clients.introduce(profile, [])
        request = service.HeartbeatRequest(group=v2.Resource(name="readers"))
        beating = asyncio.ensure_future(heartbeat(edge.service, request, edge.caller()))
        await asyncio.sleep(0)
        edge.clients.terminate("tester", None)
        with pytest.raises(UnrecognizedClientType):
            await beating
        assert edge.clients.profiles() == []

    asyncio.run(story())
