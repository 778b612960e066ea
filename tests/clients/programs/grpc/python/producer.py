"""A producer of Apache's client."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from typing import Any

from rocketmq import Producer, TransactionChecker, TransactionResolution

from tests.clients.programs.grpc.python.messages import Request, Unsupported, build_message, configure

_IN_FLIGHT_MAX = 32
_SENT_WITHIN_S = 120
_RESOLUTIONS = {
    "COMMIT": TransactionResolution.COMMIT,
    "ROLLBACK": TransactionResolution.ROLLBACK,
    "UNKNOWN": TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED,
}


class _FixedChecker(TransactionChecker):  # type: ignore[misc]  # the library has no types
    """Gives the same answer for each half message."""

    def __init__(self, answer: str) -> None:
        self._resolution = _RESOLUTIONS[answer]

    def check(self, message: Any) -> Any:
        return self._resolution


class ProducerClient:
    """A producer.

    Options: topics, checker (COMMIT, ROLLBACK or UNKNOWN: what it answers when a server asks for the fate of a half
    message; a producer of transactions needs it). Calls:

        send topic body ... -> {"messageId", "recallHandle"}
        send topic count ... -> a list of these; the bodies are body-0, body-1, ...
        recall topic handle -> {"messageId"}

    With transaction (COMMIT, ROLLBACK, or UNKNOWN: do neither) a message is sent as a half message.
    """

    def __init__(self, request: Request) -> None:
        checker = _FixedChecker(request["checker"]) if request.get("checker") else None
        self._producer = Producer(configure(request), request.get("topics"), checker, request.get("tls", False))
        self._producer.startup()

    def call(self, call: str, request: Request) -> Any:
        if call == "send":
            return self._send_many(request) if "count" in request else self._send_one(request, request["body"])
        if call == "recall":
            return {"messageId": self._producer.recall_message(request["topic"], request["handle"])}
        raise Unsupported(call)

    def close(self) -> None:
        self._producer.shutdown()

    def _send_one(self, request: Request, body: str) -> dict[str, Any]:
        message = build_message(request, body)
        end = request.get("transaction")
        if end is None:
            return _write(self._producer.send(message))
        transaction = self._producer.begin_transaction()
        receipt = self._producer.send(message, transaction)
        if end == "COMMIT":
            transaction.commit()
        elif end == "ROLLBACK":
            transaction.rollback()
        return _write(receipt)

    def _send_many(self, request: Request) -> list[dict[str, Any]]:
        """Sends messages: some at a time, or one after the other if their order matters."""
        bodies = [f"body-{number}" for number in range(request["count"])]
        if "messageGroup" in request or "transaction" in request:
            return [self._send_one(request, body) for body in bodies]
        receipts = []
        in_flight: deque[Future[Any]] = deque()
        for body in bodies:
            if len(in_flight) == _IN_FLIGHT_MAX:
                receipts.append(_write(in_flight.popleft().result(_SENT_WITHIN_S)))
            in_flight.append(self._producer.send_async(build_message(request, body)))
        return receipts + [_write(one.result(_SENT_WITHIN_S)) for one in in_flight]


def _write(receipt: Any) -> dict[str, Any]:
    handle = receipt.recall_handle
    return {"messageId": receipt.message_id} | ({"recallHandle": handle} if handle else {})
