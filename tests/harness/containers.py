"""Containers of the broker's image, and a client for them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from typing import Any

import grpc
from docker.errors import DockerException, ImageNotFound

from rmqpull_broker.testcontainers import RocketMQEmulatorContainer
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rpc import MESSAGING

IMAGE = "rmqpull-broker:test"


RESPONSE_TIMEOUT_S = 30


class ContainerClient:
    """Sends to a broker and pulls from it, over the standard protocol."""

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
        options = {"timeout": RESPONSE_TIMEOUT_S, "wait_for_ready": True}
        answer = call(request, metadata=(("x-mq-client-id", "tester"),), **options)
        return list(answer) if method.server_streaming else answer

    def send(self, topic: str, body: bytes) -> int:
        """Sends a message and returns its queue offset."""
        properties = v2.SystemProperties(message_id=uuid.uuid4().hex)
        message = v2.Message(topic=v2.Resource(name=topic), body=body, system_properties=properties)
        answer = self._call("SendMessage", service.SendMessageRequest(messages=[message]))
        assert answer.status.code == v2.Code.OK, answer.status
        offset: int = answer.entries[0].offset
        return offset

    def queues(self, topic: str) -> list[Any]:
        """Returns the message queues of a topic's route."""
        request = service.QueryRouteRequest(topic=v2.Resource(name=topic), endpoints=self._endpoints)
        return list(self._call("QueryRoute", request).message_queues)

    def bodies(self, topic: str) -> list[bytes]:
        """Returns the bodies of all messages of a topic."""
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
    """Returns why containers cannot be started, or None. ``engine`` connects to the Docker engine."""
    if told := os.environ.get("RMQPULL_NO_DOCKER"):
        return told
    try:
        engine().images.get(IMAGE)
    except ImageNotFound:
        return f"no image {IMAGE}: make test-docker builds it"
    except DockerException as error:
        return f"no Docker engine: {error}"
    return None


StartContainer = Callable[..., RocketMQEmulatorContainer]
