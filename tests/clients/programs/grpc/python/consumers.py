"""Simple and push consumers of Apache's client."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from rocketmq import ConsumeResult, MessageListener, PushConsumer, SimpleConsumer

from tests.clients.programs.grpc.python.messages import (
    Request,
    Unsupported,
    configure,
    make_filter,
    read_subscriptions,
    to_seconds,
    write_message,
)

_VIEWS_MAX = 20_000
_HELD_MAX_S = 600
_SETTINGS_WITHIN_S = 5
_STARTS_MAX = 4


def _start(make: Callable[[], Any]) -> Any:
    """Starts a simple consumer until one has its settings: 5.3.3 refuses a receive before (NullPointerException).

    The library does not wait for them, and sometimes loses the message that asks for them, on a busy machine. It would
    ask again after five minutes.
    """
    for _ in range(_STARTS_MAX):
        consumer = make()
        consumer.startup()
        if consumer._init_settings_event.wait(_SETTINGS_WITHIN_S):
            return consumer
        consumer.shutdown()
    raise TimeoutError(f"no settings came within {_SETTINGS_WITHIN_S} s, in {_STARTS_MAX} starts")


class SimpleClient:
    """A simple consumer. Options: group, subscriptions, sql, awaitMs. Calls:

        receive max invisibleMs -> list of messages
        ack handle
        change handle invisibleMs -> {"handle"}
        subscribe topic expression, unsubscribe topic

    A call with a handle sends this handle, even if the client knows a newer one of the message.
    """

    def __init__(self, request: Request) -> None:
        options: dict[str, Any] = {"await_duration": to_seconds(request["awaitMs"])} if "awaitMs" in request else {}
        options["tls_enable"] = request.get("tls", False)
        self._consumer = _start(
            lambda: SimpleConsumer(configure(request), request["group"], read_subscriptions(request), **options)
        )
        self._views: dict[str, Any] = {}

    def call(self, call: str, request: Request) -> Any:
        match call:
            case "receive":
                return self._receive(request["max"], to_seconds(request["invisibleMs"]))
            case "ack":
                self._consumer.ack(self._find(request))
                return None
            case "change":
                message = self._find(request)
                self._consumer.change_invisible_duration(message, to_seconds(request["invisibleMs"]))
                self._views[message.receipt_handle] = message
                return {"handle": message.receipt_handle}
        return _change_subscription(self._consumer, call, request)

    def close(self) -> None:
        self._consumer.shutdown()

    def _receive(self, count_max: int, invisible_s: int) -> list[dict[str, Any]]:
        received = self._consumer.receive(count_max, invisible_s)
        for message in received:
            self._views[message.receipt_handle] = message
        for handle in list(self._views)[: max(len(self._views) - _VIEWS_MAX, 0)]:
            del self._views[handle]
        return [write_message(message) for message in received]

    def _find(self, request: Request) -> Any:
        message = self._views[request["handle"]]
        message.receipt_handle = request["handle"]
        return message


class PushClient:
    """A push consumer. Options: group, subscriptions, sql, fail, hold, threads, cacheMessages. Calls:

    subscribe topic expression, unsubscribe topic, letGo

    It prints each message, fails its first deliveries (``fail``), and then succeeds. With -1 it always fails. With
    ``hold`` it ends no message before ``letGo``.
    """

    def __init__(self, request: Request, tell: Callable[[dict[str, Any]], None]) -> None:
        names = {"threads": "consumption_thread_count", "cacheMessages": "max_cache_message_count"}
        self._held = threading.Event()
        if not request.get("hold", False):
            self._held.set()
        self._consumer = PushConsumer(
            configure(request),
            request["group"],
            _FailingListener(tell, request.get("fail", 0), self._held),
            read_subscriptions(request),
            tls_enable=request.get("tls", False),
            **{name: request[field] for field, name in names.items() if field in request},
        )
        self._consumer.startup()

    def call(self, call: str, request: Request) -> Any:
        if call == "letGo":
            self._held.set()
            return None
        return _change_subscription(self._consumer, call, request)

    def close(self) -> None:
        self._consumer.shutdown()


class _FailingListener(MessageListener):  # type: ignore[misc]  # the library has no types
    """Tells of each message, holds it until an event is set, and fails its first deliveries to this consumer."""

    def __init__(self, tell: Callable[[dict[str, Any]], None], fail: int, held: threading.Event) -> None:
        self._tell = tell
        self._held = held
        self._fail = fail
        self._failed: Counter[str] = Counter()  # by message id, until it succeeds

    def consume(self, message: Any) -> Any:
        self._tell(write_message(message))
        if not self._held.wait(_HELD_MAX_S):
            return ConsumeResult.FAILURE
        message_id = message.message_id
        if self._fail < 0 or self._failed[message_id] < self._fail:
            self._failed[message_id] += 1
            return ConsumeResult.FAILURE
        del self._failed[message_id]
        return ConsumeResult.SUCCESS


def _change_subscription(consumer: Any, call: str, request: Request) -> None:
    if call == "subscribe":
        consumer.subscribe(request["topic"], make_filter(request, request["expression"]))
    elif call == "unsubscribe":
        consumer.unsubscribe(request["topic"])
    else:
        raise Unsupported(call)
