"""Reads what commits have made readable: each row once, and again as long as retention keeps it."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from rmqpull_proto.arrow_streams import read_stream
from rmqpull_proto.columns import PULLABLE_SCHEMA
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rpc import COLUMNS
from soak.commit_rows import Heads, read_heads
from soak.rpc import Calls

GROUP = "soak"
_ROWS_AGAIN = 2_000


class QueueReader:
    """Reads one queue. ``find`` gets what is wrong, ``add`` the rows that are new."""

    def __init__(
        self, topic: str, broker_name: str, queue_id: int, add: Callable[[Heads], None], find: Callable[[str], None]
    ) -> None:
        self._queue = v1.Queue(topic=topic, broker_name=broker_name, queue_id=queue_id)
        self._name = f"{topic}/{broker_name}/{queue_id}"
        self._add, self._find = add, find
        self.begin = 0
        """The first offset that retention has not deleted, as far as this reader knows."""
        self._kept: list[Heads] = []
        """The rows from offset ``begin`` on, in pieces."""

    @property
    def _end(self) -> int:
        return self.begin + sum(map(len, self._kept))

    def read_new(self, calls: Calls) -> None:
        """Reads to the end of the queue. Raises NotAnswered."""
        while True:
            heads, min_offset = self._pull(calls, self._end)
            if min_offset > self._end:
                self._find(f"{self._name}: retention has deleted the rows from {self._end} to {min_offset}, unread")
                self.begin, self._kept = min_offset, []
                continue
            self._forget_before(min_offset)
            if not len(heads):
                return
            self._kept.append(heads)
            self._add(heads)

    def read_again(self, calls: Calls, dice: random.Random | None = None) -> None:
        """Reads what is kept once more, or with ``dice`` a small part of it. Raises NotAnswered."""
        known = np.concatenate(self._kept) if self._kept else None
        if known is None:
            return
        at = self.begin if dice is None else dice.randrange(self.begin, self.begin + len(known))
        until = self.begin + len(known) if dice is None else min(self.begin + len(known), at + _ROWS_AGAIN)
        while at < until:
            heads, min_offset = self._pull(calls, at, until)
            if min_offset > at:
                at = min_offset
                continue
            if not len(heads) or not np.array_equal(heads, known[at - self.begin :][: len(heads)]):
                self._find(f"{self._name}: the rows from {at} on differ from those that were there before")
                return
            at += len(heads)

    def _pull(self, calls: Calls, offset: int, until_offset: int | None = None) -> tuple[Heads, int]:
        """Returns rows from an offset on, and the min offset. A hole between them is a finding."""
        pull = v1.QueuePull(queue=self._queue, offset=offset, until_offset=until_offset)
        request = v1.PullColumnsRequest(group=GROUP, queues=[pull], columns=["queueOffset", "body"])
        response = calls(COLUMNS.methods["PullColumns"], request)
        (result,) = response.queues
        batches = list(read_stream(response.arrow_ipc, PULLABLE_SCHEMA)) if result.row_count else []
        if not batches:
            if offset < result.max_offset and offset >= result.min_offset:
                self._find(f"{self._name}: no row at {offset}, and the queue ends at {result.max_offset}")
            return np.empty(0, read_heads(pa.array([], pa.binary())).dtype), result.min_offset
        offsets = np.concatenate([batch.column("queueOffset").to_numpy() for batch in batches])
        if not np.array_equal(offsets, np.arange(offset, offset + len(offsets))):
            self._find(f"{self._name}: a hole between {offset} and {offsets[-1]}")
        return np.concatenate([read_heads(batch.column("body")) for batch in batches]), result.min_offset

    def _forget_before(self, offset: int) -> None:
        while self._kept and self.begin + len(self._kept[0]) <= offset:
            self.begin += len(self._kept.pop(0))
