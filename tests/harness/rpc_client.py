"""A gRPC client that calls any method of a broker by its name."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc

from rmqpull_broker.server.grpc.calls import Handler
from rmqpull_broker.server.grpc.registry import EXTENSIONS, MESSAGING_HANDLERS
from rmqpull_proto import rpc
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1

RESPONSE_TIMEOUT_S = 60
"""Far longer than any test needs, so that a test fails and does not hang."""
_OPTIONS = [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1)]


METHODS = {**rpc.MESSAGING.methods, **rpc.COLUMNS.methods, **rpc.ADMIN.methods, **rpc.STAGES.methods}


def list_methods() -> dict[str, tuple[rpc.Method, Handler]]:
    """Returns the method and the handler of each RPC, by name, those of all extensions included."""
    services = ((rpc.MESSAGING, MESSAGING_HANDLERS), *EXTENSIONS.values())
    return {
        name: (service.methods[name], handler) for service, handlers in services for name, handler in handlers.items()
    }


class PullResult(NamedTuple):
    """The responses of a PullMessage, taken apart."""

    code: str
    status_message: str
    messages: list[Any]
    next_offset: int | None

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]


class PendingCall(NamedTuple):
    """A call in flight."""

    call: Any
    is_stream: bool

    def await_response(self) -> Any:
        """Waits for the response, or for the list of them when they are streamed."""
        return list(self.call) if self.is_stream else self.call.result(RESPONSE_TIMEOUT_S)

    def cancel(self) -> None:
        self.call.cancel()


class RpcStream:
    """A call that streams both ways. It stays open until one side ends it."""

    def __init__(self, stub: Any, metadata: Any) -> None:
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._call = stub(iter(self._requests.get, None), RESPONSE_TIMEOUT_S, metadata)

    def send(self, request: Any) -> None:
        self._requests.put(request)

    def receive(self) -> Any:
        """Waits for the next response."""
        return next(self._call)

    def await_headers(self) -> None:
        """Returns when the server has accepted the call."""
        self._call.initial_metadata()

    def end(self) -> None:
        """Ends the requests. The server may still send responses."""
        self._requests.put(None)

    def cancel(self) -> None:
        self._requests.put(None)
        self._call.cancel()

    def outcome(self) -> tuple[str, str]:
        """Waits for the end. Returns gRPC's status code by name, and its details."""
        code = self._call.code().name
        self._requests.put(None)
        return code, self._call.details()


class RpcClient:
    """A client of a broker. Without ``client_id`` or ``language`` it sends no header with it.

    Apache's proxy needs the language of consumers.
    """

    def __init__(self, endpoints: str, client_id: str = "tester", language: str = "") -> None:
        self.channel = grpc.insecure_channel(endpoints, options=_OPTIONS)
        headers = {"x-mq-client-id": client_id, "x-mq-language": language}
        self._metadata = tuple((name, value) for name, value in headers.items() if value)

    def start(self, name: str, request: Any) -> PendingCall:
        """Sends a request and does not wait for its response."""
        method = METHODS[name]
        stub = self.channel.unary_stream if method.server_streaming else self.channel.unary_unary
        call: Any = stub(method.path, method.request.SerializeToString, method.response.FromString)
        send = call if method.server_streaming else call.future
        return PendingCall(send(request, RESPONSE_TIMEOUT_S, self._metadata), method.server_streaming)

    def open_stream(self, name: str) -> RpcStream:
        """Opens a method that streams both ways."""
        method = METHODS[name]
        stub = self.channel.stream_stream(method.path, method.request.SerializeToString, method.response.FromString)
        return RpcStream(stub, self._metadata)

    def call(self, name: str, request: Any) -> Any:
        """Calls a method of any service and returns its response, or the list of them."""
        return self.start(name, request).await_response()

    def code(self, name: str, request: Any) -> str:
        """Calls a method and returns the name of its status code."""
        answer = self.call(name, request)
        return v2.Code.Name((answer[0] if isinstance(answer, list) else answer).status.code)

    # --- shortcuts -------------------------------------------------------------------------------------------------

    def send(self, *messages: v2.Message) -> Any:
        """Sends messages in one request, and fails when they are refused."""
        answer = self.call("SendMessage", service.SendMessageRequest(messages=messages))
        assert answer.status.code == v2.Code.OK, answer.status
        return answer

    def send_bodies(self, topic: str, *bodies: bytes, **system: Any) -> list[int]:
        """Sends messages to a topic, all to one queue, with these system properties. Returns their offsets."""
        properties = v2.SystemProperties(message_id="m", **system)
        messages = [
            v2.Message(topic=v2.Resource(name=topic), body=body, system_properties=properties) for body in bodies
        ]
        return [entry.offset for entry in self.send(*messages).entries]

    def start_pull(self, queue: v2.MessageQueue, offset: int, **options: Any) -> PendingCall:
        """Sends a PullMessage. ``wait_ms`` is its long polling timeout."""
        request = service.PullMessageRequest(
            group=v2.Resource(name=options.get("group", "readers")),
            message_queue=queue,
            offset=offset,
            batch_size=options.get("batch_size", 32),
            filter_expression=v2.FilterExpression(
                type=v2.FilterType.SQL if "sql" in options else v2.FilterType.TAG,
                expression=options.get("sql", options.get("tags", "*")),
            ),
        )
        request.long_polling_timeout.FromMilliseconds(options.get("wait_ms", 0))
        return self.start("PullMessage", request)

    def finish_pull(self, started: PendingCall) -> PullResult:
        """Waits for the response of a pull."""
        first, *rest = started.await_response()
        messages = [part.message for part in rest if part.HasField("message")]
        next_offset = rest[-1].next_offset if rest and rest[-1].HasField("next_offset") else None
        return PullResult(v2.Code.Name(first.status.code), first.status.message, messages, next_offset)

    def pull(self, queue: v2.MessageQueue, offset: int, **options: Any) -> PullResult:
        return self.finish_pull(self.start_pull(queue, offset, **options))

    def update_offset(self, group: str, queue: v2.MessageQueue, offset: int) -> str:
        request = service.UpdateOffsetRequest(group=v2.Resource(name=group), message_queue=queue, offset=offset)
        return self.code("UpdateOffset", request)

    def get_offset(self, group: str, queue: v2.MessageQueue) -> tuple[str, int]:
        request = service.GetOffsetRequest(group=v2.Resource(name=group), message_queue=queue)
        answer = self.call("GetOffset", request)
        return v2.Code.Name(answer.status.code), answer.offset

    def bounds(self, topic: str, query_id: str = "") -> Any:
        """A topic's entry of QueryBounds."""
        request = v1.QueryBoundsRequest(topics=[v1.TopicBoundsRequest(topic=topic)], query_id=query_id)
        return self.call("QueryBounds", request).topics[0]


Connect = Callable[..., RpcClient]


OpenTelemetryStream = Callable[..., RpcStream]


def make_settings(
    client_type: str, *topics: str, group: str = "", expression: v2.FilterExpression | None = None
) -> Any:
    """Returns settings as a client sends them: those of a producer, or with a group those of a consumer."""
    resources = [v2.Resource(name=topic) for topic in topics]
    if not group:
        return v2.Settings(client_type=client_type, publishing=v2.Publishing(topics=resources))
    entries = [v2.SubscriptionEntry(topic=resource, expression=expression) for resource in resources]
    subscription = v2.Subscription(group=v2.Resource(name=group), subscriptions=entries)
    return v2.Settings(client_type=client_type, subscription=subscription)
