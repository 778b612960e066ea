"""How producers send to Apache's brokers: by Apache's Java producer, which sends each message to a given queue.

With a given queue it does not send a message again by itself. So each attempt is stored once at most.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

from processes.apache.java_clients import JavaProducer, SendFailed, make_message
from processes.children import ProcessFailed
from soak.ledger import Attempt, Ledger
from soak.servers import NotAnswered, Workload

ROWS_PER_BATCH_MAX = 60
ROW_PAUSE_S, BATCH_PAUSE_S = 0.05, 1.0


class ApacheSender:
    """Two producers that share a Java process. ``list_queues`` returns brokers and queue ids of a topic."""

    def __init__(self, producer: JavaProducer, list_queues: Callable[[str], Sequence[tuple[str, int]]]) -> None:
        self._producer = producer
        self._list_queues = list_queues
        self._lock = threading.Lock()
        self.workloads = (
            Workload("single", self._send, 4, ROW_PAUSE_S),
            Workload("batches", self._send_batch, ROWS_PER_BATCH_MAX, BATCH_PAUSE_S),
        )

    def close(self) -> None:
        """Ends the Java process."""
        self._producer.kill()

    def _send(self, ledger: Ledger, topic: str, messages: Sequence[tuple[Attempt, bytes]], dice: random.Random) -> None:
        for attempt, body in messages:
            broker, queue = dice.choice(self._list_queues(topic))
            result = self._ask(lambda: self._producer.send(**_message(attempt, body, broker, queue)))  # noqa: B023
            ledger.acknowledge(attempt, (result["queueOffset"],), {(broker, queue)})

    def _send_batch(
        self, ledger: Ledger, topic: str, messages: Sequence[tuple[Attempt, bytes]], dice: random.Random
    ) -> None:
        broker, queue = dice.choice(self._list_queues(topic))
        for attempt, _ in messages:
            attempt.keeps_id = False
        batch = [make_message(**_message(attempt, body, broker, queue)) for attempt, body in messages]
        first = self._ask(lambda: self._producer.send_batch(batch))["queueOffset"]
        for place, (attempt, _) in enumerate(messages):
            ledger.acknowledge(attempt, (first + place,), {(broker, queue)})

    def _ask(self, send: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Raises NotAnswered unless the result is SEND_OK."""
        try:
            with self._lock:
                return send()
        except (SendFailed, ProcessFailed, BrokenPipeError) as error:
            raise NotAnswered(str(error)) from None


def _message(attempt: Attempt, body: bytes, broker: str, queue: int) -> dict[str, Any]:
    return {
        "topic": attempt.topic,
        "body": body,
        "tags": attempt.tag,
        "keys": attempt.key,
        "properties": {"price": str(attempt.price), "UNIQ_KEY": attempt.msg_id},
        "broker": broker,
        "queue": queue,
    }
