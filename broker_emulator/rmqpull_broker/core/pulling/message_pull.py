"""Standard pulls: the decision by offset and bounds, then the messages that match filter and limits (rules 3.2).

Reads the state and changes nothing. The caller decides whether a pull without messages parks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from rmqpull_broker.core.filters.budget import FilterBudget
from rmqpull_broker.core.filters.message_filter import MessageFilter
from rmqpull_broker.core.messages.message_properties import count_record_bytes, find_record_bytes_max
from rmqpull_broker.core.model import Bounds, MessageQueue
from rmqpull_broker.core.pulling.answers import PullStatus, find_response
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_proto.remoting.codes import ResponseCode

CONSUME_QUEUE_FILE_ENTRIES = 300_000
"""Entries of a consume-queue file. One pull scans one file (travelCqFileNumWhenGetMessage)."""
SCAN_ENTRIES = 800
"""Entries that a pull scans, unless it requests more messages: maxFilterMessageSize 16,000 / 20 bytes an entry."""


@dataclass(frozen=True)
class TransferLimits:
    """The limits of one response. The first message always fits. Apache's maxPullSize of 128 MiB is never reached.

    ``byte_count`` limits the stored records (``message_properties.count_record_bytes``), not only the bodies.
    """

    message_count: int
    byte_count: int


IN_MEMORY = TransferLimits(32, 262_144)
"""maxTransferCountOnMessageInMemory, maxTransferBytesOnMessageInMemory."""


@dataclass(frozen=True)
class Pulled:
    """The result for one queue: rows in slices, in order, and the offset of the next pull."""

    status: PullStatus
    offset: int
    next_offset: int
    bounds: Bounds
    batches: Sequence[pa.RecordBatch] = ()

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return sum(batch.num_rows for batch in self.batches)

    @property
    def response(self) -> ResponseCode:
        """The response code of the status."""
        return find_response(self.status, self.offset)

    @property
    def may_park(self) -> bool:
        """Whether a pull with this result parks until a message arrives (rules 3.3)."""
        return self.response is ResponseCode.PULL_NOT_FOUND


def check_offset(offset: int, bounds: Bounds) -> Pulled | None:
    """Rows 3 to 6 of the decision table (rules 3.2.1). Returns None when there are messages to scan.

    Row 2, a missing queue, does not occur in the store: looking up a queue creates it.
    """
    if bounds.max_offset == 0:
        return Pulled(PullStatus.NO_MESSAGE_IN_QUEUE, offset, 0, bounds)
    if offset < bounds.min_offset:
        return Pulled(PullStatus.OFFSET_TOO_SMALL, offset, bounds.min_offset, bounds)
    if offset == bounds.max_offset:
        return Pulled(PullStatus.OFFSET_OVERFLOW_ONE, offset, offset, bounds)
    if offset > bounds.max_offset:
        return Pulled(PullStatus.OFFSET_OVERFLOW_BADLY, offset, bounds.max_offset, bounds)
    return None


def pull_messages(
    state: BrokerState,
    queue: MessageQueue,
    offset: int,
    max_msg_nums: int,
    message_filter: MessageFilter,
    limits: TransferLimits = IN_MEMORY,
) -> Pulled:
    """Makes a standard pull (rules 3.2.2). 0 and negative ``max_msg_nums`` return one message.

    The next offset also skips the messages that the filter dropped.
    """
    bounds = state.bounds(queue)
    verdict = check_offset(offset, bounds)
    if verdict is not None:
        return verdict
    measure = partial(count_record_bytes, topic=queue.topic, broker=state.properties)
    find_bytes_max = partial(find_record_bytes_max, topic=queue.topic, broker=state.properties)
    batch = _Batch(max(1, min(max_msg_nums, limits.message_count)), limits.byte_count, measure, find_bytes_max)
    # A pull of Apache's broker ends with its consume-queue file, so clients see a short response there.
    next_file = (offset // CONSUME_QUEUE_FILE_ENTRIES + 1) * CONSUME_QUEUE_FILE_ENTRIES
    scanned_max = batch.count_max if message_filter.keeps_everything else max(SCAN_ENTRIES, max_msg_nums)
    end = min(bounds.max_offset, next_file, offset + scanned_max)
    batches: list[pa.RecordBatch] = []
    next_offset = offset
    has_gap = is_read = False
    for scanned, mask in FilterBudget(message_filter).split(state.store.read(queue, offset, end)):
        first = read_first_offset(scanned)
        has_gap |= first > next_offset
        is_read = True
        scanned_rows, taken = batch.take(scanned, mask)
        next_offset = first + scanned_rows
        if taken:
            batches.append(scanned.take(pa.array(taken, pa.int64())))
        if batch.is_full:
            break
    if not is_read:
        return Pulled(PullStatus.OFFSET_FOUND_NULL, offset, next_file, bounds)
    return Pulled(find_status(batches, has_gap), offset, next_offset, bounds, batches)


def read_first_offset(scanned: pa.RecordBatch) -> int:
    """Returns the queue offset of the first row of a slice."""
    return int(scanned.column("queueOffset")[0].as_py())


def find_status(batches: Sequence[pa.RecordBatch], has_gap: bool) -> PullStatus:
    """Rows 8 to 10 of the decision table (rules 3.2.1): the status after a scan."""
    if batches:
        return PullStatus.FOUND
    return PullStatus.MESSAGE_WAS_REMOVING if has_gap else PullStatus.NO_MATCHED_MESSAGE


class _Batch:
    """The messages of one response. Before each entry, matching or not, it checks whether the response is full.

    ``measure`` returns the size of each row, and ``find_bytes_max`` an upper bound of their sum. Measuring takes longer
    than the rest of a pull, so rows are measured only near the byte limit.
    """

    def __init__(
        self,
        count_max: int,
        byte_max: int,
        measure: Callable[[pa.RecordBatch], pa.Array],
        find_bytes_max: Callable[[pa.RecordBatch], int],
    ) -> None:
        self.count_max = count_max
        self._byte_max = byte_max
        self._measure = measure
        self._find_bytes_max = find_bytes_max
        self._count = self._bytes = 0
        self._unmeasured: list[tuple[pa.RecordBatch, list[int]]] = []
        self._unmeasured_bytes_max = 0
        self.is_full = False

    def take(self, scanned: pa.RecordBatch, mask: pa.Array | None) -> tuple[int, list[int]]:
        """Returns the number of scanned rows of a slice, and the indexes of the taken ones."""
        if mask is not None and self._count == 0 and mask.true_count == 0:
            return scanned.num_rows, []
        passes = [True] * scanned.num_rows if mask is None else mask.to_pylist()
        taken: list[int] = []
        for index, size in enumerate(self._list_sizes(scanned, taken)):
            if self._count > 0 and (self._count >= self.count_max or self._bytes + size > self._byte_max):
                self.is_full = True
                return index, taken
            if passes[index]:
                taken.append(index)
                self._count += 1
                self._bytes += size
        return scanned.num_rows, taken

    def _list_sizes(self, scanned: pa.RecordBatch, taken: list[int]) -> Sequence[int]:
        """Returns the size of each row, or zeros while the limit is far away. ``taken`` will have the taken rows."""
        bytes_max = self._unmeasured_bytes_max + self._find_bytes_max(scanned)
        if self._bytes + bytes_max <= self._byte_max:
            self._unmeasured.append((scanned, taken))
            self._unmeasured_bytes_max = bytes_max
            return [0] * scanned.num_rows
        for batch, rows in self._unmeasured:
            self._bytes += sum(self._measure(batch.take(pa.array(rows, pa.int64()))).to_pylist())
        self._unmeasured, self._unmeasured_bytes_max = [], 0
        return list(self._measure(scanned).to_pylist())
