"""Containers of the image that ``make test-docker`` builds, wherever a Docker engine answers and has it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import grpc
import pytest
from docker.errors import DockerException, ImageNotFound
from testcontainers.core.config import testcontainers_config
from testcontainers.core.docker_client import DockerClient

from rmqpull_broker.testcontainers import RocketMQEmulatorContainer
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rpc import MESSAGING

IMAGE = "rmqpull-broker:test"
ANSWER_TIMEOUT_S = 30


class Client:
    """Sends to a broker and pulls back, over the standard protocol."""

    def __init__(self, endpoints: str) -> None:
        host, _, port = endpoints.rpartition(":")
        address = v2.Address(host=host, port=int(port))
        self._endpoints = v2.Endpoints(scheme=v2.AddressScheme.DOMAIN_NAME, addresses=[address])
        self.channel = grpc.insecure_channel(endpoints, options=[("grpc.enable_http_proxy", 0)])

    def _call(self, name: str, request: Any) -> Any:
        method = MESSAGING.methods[name]
        stub = self.channel.unary_stream if method.server_streaming else self.channel.unary_unary
        call: Any = stub(method.path, method.request.SerializeToString, method.response.FromString)
        # After a restart the engine takes connections before the broker does.
        options = {"timeout": ANSWER_TIMEOUT_S, "wait_for_ready": True}
        answer = call(request, metadata=(("x-mq-client-id", "tester"),), **options)
        return list(answer) if method.server_streaming else answer

    def send(self, topic: str, body: bytes) -> int:
        """The offset of the message in its queue."""
        properties = v2.SystemProperties(message_id=uuid.uuid4().hex)
        message = v2.Message(topic=v2.Resource(name=topic), body=body, system_properties=properties)
        answer = self._call("SendMessage", service.SendMessageRequest(messages=[message]))
        assert answer.status.code == v2.Code.OK, answer.status
        offset: int = answer.entries[0].offset
        return offset

    def queues(self, topic: str) -> list[Any]:
        """The message queues of a topic's route."""
        request = service.QueryRouteRequest(topic=v2.Resource(name=topic), endpoints=self._endpoints)
        return list(self._call("QueryRoute", request).message_queues)

    def bodies(self, topic: str) -> list[bytes]:
        """What all queues of a topic hold, from their beginning."""
        found: list[bytes] = []
        for queue in self.queues(topic):
            request = service.PullMessageRequest(
                group=v2.Resource(name="readers"),
                message_queue=queue,
                batch_size=32,
                filter_expression=v2.FilterExpression(expression="*"),
            )
            parts = self._call("PullMessage", request)
            found += [part.message.body for part in parts if part.HasField("message")]
        return found


def missing(engine: Callable[[], Any]) -> str | None:
    """Why there can be no container, or None. ``engine`` connects to the engine."""
    if told := os.environ.get("RMQPULL_NO_DOCKER"):
        return told
    try:
        engine().images.get(IMAGE)
    except ImageNotFound:
        return f"no image {IMAGE}: make test-docker builds it"
    except DockerException as error:
        return f"no Docker engine: {error}"
    return None


@pytest.fixture(scope="session")
def engine(processes_allowed: None) -> Any:
    """The engine's client; without an engine, or without the image there, what asks for it is skipped."""
    # What these tests start they also stop: the image that would clean up behind them need not be there.
    testcontainers_config.ryuk_disabled = True
    if reason := missing(lambda: DockerClient().client):
        pytest.skip(reason)
    return DockerClient().client


@pytest.fixture(scope="session")
def host_network(engine: Any) -> bool:
    """Whether the engine runs without its bridge."""
    return "bridge" not in {network.name for network in engine.networks.list()}


StartContainer = Callable[..., RocketMQEmulatorContainer]


@pytest.fixture
def container(host_network: bool) -> StartContainer:
    """Makes containers of the image, with the arguments of RocketMQEmulatorContainer; the test starts them."""

    def make(**arguments: Any) -> RocketMQEmulatorContainer:
        return RocketMQEmulatorContainer(IMAGE, host_network=host_network, **arguments)

    return make


@pytest.fixture
def volume(engine: Any) -> Iterator[str]:
    """The name of a volume that ends with the test."""
    name = f"rmqpull-test-{uuid.uuid4().hex}"
    yield name
    engine.volumes.get(name).remove()


@pytest.fixture
def connect() -> Iterator[Callable[[str], Client]]:
    """Makes clients whose channels are closed in the end."""
    with ExitStack() as channels:

        def open_client(endpoints: str) -> Client:
            client = Client(endpoints)
            channels.callback(client.channel.close)
            return client

        yield open_client
