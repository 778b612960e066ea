"""A consumer that acknowledges, over gRPC, with any broker."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.rpc_client import RpcClient, make_settings


class Receiver:
    """A simple consumer of one topic. Its Telemetry stream is open until it is closed.

    A receive that finds nothing takes 5 s, so tests receive what is there.
    """

    def __init__(self, endpoints: str, group: str = "readers", topic: str = "orders", language: str = "") -> None:
        self.client = RpcClient(endpoints, f"{group}@test", language)
        self.group, self.topic = v2.Resource(name=group), v2.Resource(name=topic)
        self._stream = self.client.open_stream("Telemetry")
        settings = make_settings("SIMPLE_CONSUMER", topic, group=group)
        self._stream.send(service.TelemetryCommand(settings=settings))
        assert self._stream.receive().status.code == v2.Code.OK

    def __enter__(self) -> Receiver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.cancel()
        self.client.channel.close()

    def leave(self) -> None:
        """Leaves the group."""
        assert (
            self.client.code("NotifyClientTermination", service.NotifyClientTerminationRequest(group=self.group))
            == "OK"
        )

    def make_request(self, count: int = 32, invisible_ms: int = 60_000, **fields: Any) -> Any:
        """Returns a request that receives up to ``count`` messages."""
        request = service.ReceiveMessageRequest(
            group=self.group,
            message_queue=v2.MessageQueue(topic=self.topic),
            batch_size=count,
            filter_expression=v2.FilterExpression(type=v2.FilterType.TAG, expression="*"),
            **fields,
        )
        request.invisible_duration.FromMilliseconds(invisible_ms)
        request.long_polling_timeout.FromMilliseconds(5_000)
        return request

    def receive(self, count: int = 32, invisible_ms: int = 60_000, **fields: Any) -> list[v2.Message]:
        """Receives up to ``count`` messages; fails when there are none."""
        parts = self.client.call("ReceiveMessage", self.make_request(count, invisible_ms, **fields))
        assert parts[0].status.code == v2.Code.OK, parts[0]
        return [part.message for part in parts if part.HasField("message")]

    def make_ack(self, *messages: v2.Message) -> Any:
        """Returns a request that acknowledges messages."""
        entries = [
            service.AckMessageEntry(
                message_id=message.system_properties.message_id, receipt_handle=message.system_properties.receipt_handle
            )
            for message in messages
        ]
        return service.AckMessageRequest(group=self.group, topic=self.topic, entries=entries)

    def ack(self, *messages: v2.Message) -> str:
        """Acknowledges messages, and returns the code."""
        return self.client.code("AckMessage", self.make_ack(*messages))

    def make_dead_letter(self, message: v2.Message) -> Any:
        """Returns a request that gives a message up."""
        return service.ForwardMessageToDeadLetterQueueRequest(
            group=self.group,
            topic=self.topic,
            receipt_handle=message.system_properties.receipt_handle,
            message_id=message.system_properties.message_id,
        )
