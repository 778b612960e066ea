"""Shared by the looks at single messages: how a message becomes a witness, and how many are requested at once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rmqpull_client.model import MessageQueue
from rmqpull_client.witness import DIGEST_BYTES, Witness

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_PULLS = 4
"""How many messages are requested while their size is not known."""
COLUMNS = ("queueOffset", "msgId", "body", "storeTimestamp")
"""The columns of a message from which its witness is made."""


def make_witnesses(queues: Sequence[MessageQueue], rows: pa.Table, protocol: str) -> dict[MessageQueue, Witness]:
    """Returns the witness of each row. Rows have :data:`COLUMNS` and are in the order of their queues."""
    offsets, ids, bodies = (rows.column(name).to_pylist() for name in COLUMNS[:3])
    times_us = rows.column("storeTimestamp").cast("int64").to_pylist()
    return {
        queue: Witness(offset, (time_us or 0) // 1000, _digest(message_id, body), protocol)
        for queue, offset, message_id, body, time_us in zip(queues, offsets, ids, bodies, times_us, strict=True)
    }


def _digest(message_id: str | None, body: bytes | None) -> str:
    digest = hashlib.blake2b((message_id or "").encode(), digest_size=DIGEST_BYTES)
    digest.update(b"\0")
    digest.update(body or b"")
    return digest.hexdigest()


class LookLimit:
    """Limits the bytes of a look: it requests as many messages at once as fit if they are as large as earlier ones."""

    def __init__(self, byte_max: int, in_flight_max: int) -> None:
        self._left = byte_max
        self._in_flight_max = in_flight_max
        self._largest = max(byte_max // FIRST_PULLS, 1)
        self._is_known = False

    def count_next(self) -> int:
        """Returns how many messages to request now; 0 when there are enough bytes."""
        return max(1, min(self._in_flight_max, self._left // self._largest)) if self._left > 0 else 0

    def add(self, sizes: Iterable[int]) -> None:
        """Records the sizes of messages."""
        for size in sizes:
            self._left -= size
            self._largest = max(self._largest, size) if self._is_known else max(size, 1)
            self._is_known = True
