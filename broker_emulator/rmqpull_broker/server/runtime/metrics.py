"""The broker's counters: plain numbers that cost almost nothing. ``server.observability.exposition`` presents them. All
methods belong to the event loop.
"""

from __future__ import annotations

import copy
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.popping.receipts import TopicKind
from rmqpull_broker.core.popping.request import PopResult
from rmqpull_broker.core.pulling.message_pull import Pulled
from rmqpull_broker.core.pulling.record_pull import RecordsPulled
from rmqpull_broker.core.state.facts import ColumnsStored, Fact, GroupDeleted, RowsStored, TopicDeleted
from rmqpull_broker.core.state.names import STAGE_PREFIX, find_dead_letters_group
from rmqpull_broker.core.state.stage_facts import StagesCommitted

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
GROUP_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 10_000)


class Histogram:
    """The number of observations at or below each bound; the last number counts those above all bounds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        # Not a list: its numbers would be objects, any of which can pin 1 MB of Python's memory after a burst.
        self.counts = array("Q", [0] * (len(bounds) + 1))
        self._sum = array("d", [0.0])

    def observe(self, value: float) -> None:
        """Counts one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self._sum[0] += value

    @property
    def sum(self) -> float:
        """The sum of all observations."""
        return self._sum[0]


class Metrics:
    """The counters of one broker since its start; a replay of the commit log counts nothing.

    Bytes are those of stored bodies.
    """

    def __init__(self) -> None:
        self.messages_in: Counter[str] = Counter()
        self.bytes_in: Counter[str] = Counter()
        self.messages_out: Counter[str] = Counter()
        self.bytes_out: Counter[str] = Counter()
        self.pulls: Counter[str] = Counter()
        # By group, and by the topic in which the message is stored.
        self.delivered: Counter[tuple[str, str]] = Counter()
        self.redelivered: Counter[tuple[str, str]] = Counter()
        self.acknowledged: Counter[tuple[str, str]] = Counter()
        self.dead_lettered: Counter[tuple[str, str]] = Counter()
        self.calls: Counter[tuple[str, int | str]] = Counter()
        self.call_seconds: dict[str, Histogram] = {}
        self.sync_seconds = Histogram(SECONDS)
        self.group_sizes = Histogram(GROUP_SIZES)
        self.sync_failures = 0
        self.commit_gaps = 0

    def copy(self) -> Metrics:
        """Returns a copy of the counters. It shares the histograms, which go on counting."""
        copied = Metrics()
        copied.__dict__.update((name, copy.copy(value)) for name, value in vars(self).items())
        return copied

    def count_stored(self, facts: Iterable[Fact]) -> None:
        """Counts stored messages by topic. Staged messages count when they are committed and stored."""
        for fact in facts:
            if isinstance(fact, RowsStored):
                self.messages_in[fact.queue.topic] += len(fact.rows)
                self.bytes_in[fact.queue.topic] += sum(len(row.message.body) for row in fact.rows)
                if (group := find_dead_letters_group(fact.queue.topic)) is not None:
                    self.dead_lettered[group, fact.queue.topic] += len(fact.rows)
            elif isinstance(fact, ColumnsStored):
                self._count_columns(fact)
            elif isinstance(fact, StagesCommitted):
                for splice in fact.splices:
                    self.messages_in[splice.queue.topic] += splice.row_count
                    self.bytes_in[splice.queue.topic] += splice.body_bytes
            elif isinstance(fact, TopicDeleted):
                # So that the counters do not grow for ever.
                for counter in (self.messages_in, self.bytes_in, self.messages_out, self.bytes_out):
                    del counter[fact.topic]
                self._forget(1, fact.topic)
            elif isinstance(fact, GroupDeleted):
                self._forget(0, fact.group)

    def _forget(self, index: int, name: str) -> None:
        """Forgets what was counted for a deleted group or topic."""
        for counter in (self.delivered, self.redelivered, self.acknowledged, self.dead_lettered):
            for key in [key for key in counter if key[index] == name]:
                del counter[key]

    def _count_columns(self, stored: ColumnsStored) -> None:
        start = 0
        for topic, parts in groupby(stored.parts, key=lambda part: part.queue.topic):
            if topic.startswith(STAGE_PREFIX):
                return
            count = sum(part.row_count for part in parts)
            self.messages_in[topic] += count
            self.bytes_in[topic] += _body_bytes(stored.batch.slice(start, count))
            start += count

    def count_pull(self, topic: str, pulled: Pulled) -> None:
        """Counts the messages that a pull found in one queue."""
        self.pulls[pulled.status.name] += 1
        for batch in pulled.batches:
            self.messages_out[topic] += batch.num_rows
            self.bytes_out[topic] += _body_bytes(batch)

    def count_records(self, topic: str, pulled: RecordsPulled) -> None:
        """Counts the messages that a pull of the remoting protocol found."""
        self.pulls[pulled.status.name] += 1
        if pulled.row_count:
            self.messages_out[topic] += pulled.row_count
            self.bytes_out[topic] += pulled.message_bytes

    def count_popped(self, group: str, result: PopResult) -> None:
        """Counts the messages that a pop has delivered to a group."""
        for part in result.parts:
            key, offsets = (group, part.queue.topic), part.offsets
            again = sum(part.consumed_times.get(offset, 0) > 0 for offset in offsets)
            self.delivered[key] += len(offsets)
            self.redelivered[key] += again if part.topic_kind is TopicKind.NORMAL else len(offsets)
            for batch in part.pulled.batches:
                self.messages_out[part.queue.topic] += batch.num_rows
                self.bytes_out[part.queue.topic] += _body_bytes(batch)

    def count_call(self, rpc: str, code: int | str, seconds: float) -> None:
        """Counts a call, by the code of its status or the name of gRPC's status."""
        self.calls[rpc, code] += 1
        histogram = self.call_seconds.get(rpc)
        if histogram is None:
            histogram = self.call_seconds[rpc] = Histogram(SECONDS)
        histogram.observe(seconds)

    def count_write(self, command_count: int, seconds: float, error: OSError | None) -> None:
        """Counts one write to the commit log, with its sync, for ``command_count`` commands."""
        self.sync_seconds.observe(seconds)
        self.group_sizes.observe(command_count)
        self.sync_failures += error is not None


def _body_bytes(batch: pa.RecordBatch) -> int:
    return int(pc.sum(pc.binary_length(batch.column("body"))).as_py() or 0)
