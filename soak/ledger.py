"""What producers tried and what was acknowledged: the one truth that the output is held against."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass
class Attempt:
    """One try to send one message. A retry is another attempt with a key of its own: the first may be stored too."""

    key: str
    topic: str
    tag: str
    price: int
    digest: str
    step: int
    acknowledged: bool = False
    offsets: Collection[int] = ()
    queues: Collection[tuple[str, int]] = ()

    @property
    def msg_id(self) -> str:
        """The message id that its producer gave it."""
        return f"id-{self.key}"

    @property
    def place(self) -> str:
        """Where it is, as far as the broker told its producer: of a batch in columns all of its ranges."""
        queues = " or ".join(f"{broker_name}/{queue_id}" for broker_name, queue_id in sorted(self.queues)) or "?"
        if not self.offsets:
            return f"{self.topic}/{queues}"
        return f"{self.topic}/{queues} offset {min(self.offsets)}" + f" to {max(self.offsets)}" * (
            len(self.offsets) > 1
        )

    def may_be_at(self, broker_name: str, queue_id: int, offset: int) -> bool:
        """Whether the broker's answer allows this place; without an answer any is."""
        is_queue = not self.queues or (broker_name, queue_id) in self.queues
        return not self.acknowledged or (is_queue and offset in self.offsets)


def body_of(key: str, size: int) -> bytes:
    """A body that no other message has; packable, as text is."""
    return (f"{key} ".encode() * (size // (len(key) + 1) + 1))[:size]


def digest_of(body: bytes) -> str:
    """As Spark's md5() spells it."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


class Ledger:
    """Attempts by key, written by producers and read when they have ended. ``step`` is the schedule's present one."""

    def __init__(self) -> None:
        self.step = 0
        self._lock = threading.Lock()
        self._attempts: dict[str, Attempt] = {}

    def begin(self, attempts: Sequence[Attempt]) -> None:
        """Before they are sent: from now on each may be in the output."""
        with self._lock:
            self._attempts.update((attempt.key, attempt) for attempt in attempts)

    def acknowledge(self, attempt: Attempt, offsets: Collection[int], queues: Collection[tuple[str, int]] = ()) -> None:
        """The broker said that it is stored, at one of these offsets: it must be in the output."""
        with self._lock:
            attempt.offsets, attempt.queues, attempt.acknowledged = offsets, queues, True

    def attempts(self) -> dict[str, Attempt]:
        """All so far, by key."""
        with self._lock:
            return dict(self._attempts)
