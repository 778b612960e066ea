"""What producers have tried to send, and what was acknowledged. The output is compared with it."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass
class Attempt:
    """An attempt to send a message. A retry is another attempt with its own key, since the first one may be stored
    too.
    """

    key: str
    topic: str
    tag: str
    price: int
    digest: str
    step: int
    acknowledged: bool = False
    offsets: Collection[int] = ()
    queues: Collection[tuple[str, int]] = ()
    keeps_id: bool = True
    """Whether readers see the id that the producer gave. Those of Apache's batches see that of the batch."""

    @property
    def msg_id(self) -> str:
        """The message id that the producer gave."""
        return f"id-{self.key}"

    @property
    def known_offsets(self) -> str:
        """Where the broker said that the message is. For a batch in columns these are all of its ranges."""
        queues = " or ".join(f"{broker_name}/{queue_id}" for broker_name, queue_id in sorted(self.queues)) or "?"
        if not self.offsets:
            return f"{self.topic}/{queues}"
        return f"{self.topic}/{queues} offset {min(self.offsets)}" + f" to {max(self.offsets)}" * (
            len(self.offsets) > 1
        )

    def may_be_at(self, broker_name: str, queue_id: int, offset: int) -> bool:
        """Whether the broker's response allows this queue and offset. Without a response any is allowed."""
        is_queue = not self.queues or (broker_name, queue_id) in self.queues
        return not self.acknowledged or (is_queue and offset in self.offsets)


def body_of(key: str, size: int) -> bytes:
    """Returns a body that no other message has. It can be compressed like text."""
    return (f"{key} ".encode() * (size // (len(key) + 1) + 1))[:size]


def digest_of(body: bytes) -> str:
    """Returns the digest in the form of Spark's md5()."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


class Ledger:
    """The attempts by key, written by producers. ``step`` is the current step of the schedule."""

    def __init__(self) -> None:
        self.step = 0
        self._lock = threading.Lock()
        self._attempts: dict[str, Attempt] = {}

    def begin(self, attempts: Sequence[Attempt]) -> None:
        """Records attempts before they are sent: from now on each may be in the output."""
        with self._lock:
            self._attempts.update((attempt.key, attempt) for attempt in attempts)

    def acknowledge(self, attempt: Attempt, offsets: Collection[int], queues: Collection[tuple[str, int]] = ()) -> None:
        """Records that the broker has stored an attempt at one of these offsets: it must be in the output."""
        with self._lock:
            attempt.offsets, attempt.queues, attempt.acknowledged = offsets, queues, True

    def attempts(self) -> dict[str, Attempt]:
        """Returns all attempts so far, by key."""
        with self._lock:
            return dict(self._attempts)
