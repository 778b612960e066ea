"""What a pull finds: the decision table, then the messages that pass filter and limits (rules 3.2).

Reads state and changes nothing. Whether an empty answer is given or held is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from rmqpull_broker.core.filters.message_filter import MessageFilter
from rmqpull_broker.core.messages.message_properties import count_record_bytes
from rmqpull_broker.core.model import Bounds, MessageQueue
from rmqpull_broker.core.pulling.answers import MASTER, PullResponse, PullStatus, ReadRole, find_response
from rmqpull_broker.core.state.broker_state import BrokerState

CONSUME_QUEUE_FILE_ENTRIES = 300_000
"""Entries of a consume-queue file; one pull looks into one file (travelCqFileNumWhenGetMessage)."""
SCAN_ENTRIES = 800
"""Entries that a pull looks at, or as many as it wants messages: maxFilterMessageSize 16,000 by 20 bytes each."""


@dataclass(frozen=True)
class TransferLimits:
    """How much one answer carries; the first message always fits. The 128 MiB of maxPullSize lie above them all.

    ``byte_count`` limits the stored records (``stored_properties.count_record_bytes``), not the bodies alone.
    """

    message_count: int
    byte_count: int


IN_MEMORY = TransferLimits(32, 262_144)
"""maxTransferCountOnMessageInMemory, maxTransferBytesOnMessageInMemory."""
IN_DISK = TransferLimits(8, 65_536)
"""maxTransferCountOnMessageInDisk, maxTransferBytesOnMessageInDisk: for messages that lie further back in the commit
log than accessMessageInMemoryMaxRatio, 40 %, of the machine's memory."""


@dataclass(frozen=True)
class Pulled:
    """The result for one queue: rows as slices in order, and where the next pull begins."""

    status: PullStatus
    offset: int
    next_offset: int
    bounds: Bounds
    batches: Sequence[pa.RecordBatch] = ()

    @property
    def row_count(self) -> int:
        """Rows over all slices."""
        return sum(batch.num_rows for batch in self.batches)

    @property
    def response(self) -> PullResponse:
        """The code that the status is answered with."""
        return find_response(self.status, self.offset)

    @property
    def waits(self) -> bool:
        """Whether such a pull is held until something arrives (rules 3.3)."""
        return self.response is PullResponse.PULL_NOT_FOUND


def look_up(offset: int, bounds: Bounds, role: ReadRole = MASTER) -> Pulled | None:
    """Rows 3 to 6 of the decision table (rules 3.2.1); None when there is something to scan.

    Row 2, a missing queue, does not occur in the store: looking a queue up makes it.
    """
    if bounds.max_offset == 0:
        return Pulled(PullStatus.NO_MESSAGE_IN_QUEUE, offset, role.corrected(offset, 0), bounds)
    if offset < bounds.min_offset:
        return Pulled(PullStatus.OFFSET_TOO_SMALL, offset, role.corrected(offset, bounds.min_offset), bounds)
    if offset == bounds.max_offset:
        return Pulled(PullStatus.OFFSET_OVERFLOW_ONE, offset, offset, bounds)
    if offset > bounds.max_offset:
        return Pulled(PullStatus.OFFSET_OVERFLOW_BADLY, offset, role.corrected(offset, bounds.max_offset), bounds)
    return None


def pull_messages(
    state: BrokerState,
    queue: MessageQueue,
    offset: int,
    max_msg_nums: int,
    message_filter: MessageFilter,
    limits: TransferLimits = IN_MEMORY,
    role: ReadRole = MASTER,
) -> Pulled:
    """A standard pull (rules 3.2.2): 0 and negative ``max_msg_nums`` bring one message.

    Entries that the filter drops are behind the reader all the same.
    """
    bounds = state.bounds(queue)
    verdict = look_up(offset, bounds, role)
    if verdict is not None:
        return verdict
    measure = partial(count_record_bytes, topic=queue.topic, broker=state.properties)
    batch = _Batch(max(1, min(max_msg_nums, limits.message_count)), limits.byte_count, measure)
    next_file = (offset // CONSUME_QUEUE_FILE_ENTRIES + 1) * CONSUME_QUEUE_FILE_ENTRIES
    scanned_max = batch.count_max if message_filter.keeps_everything else max(SCAN_ENTRIES, max_msg_nums)
    end = min(bounds.max_offset, next_file, offset + scanned_max)
    batches: list[pa.RecordBatch] = []
    next_offset = offset
    was_removed = is_read = False
    for scanned in state.store.read(queue, offset, end):
        first = first_offset(scanned)
        was_removed |= first > next_offset
        is_read = True
        looked_at, taken = batch.take(scanned, message_filter)
        next_offset = first + looked_at
        if taken:
            batches.append(scanned.take(pa.array(taken, pa.int64())))
        if batch.is_full:
            break
    if not is_read:
        return Pulled(PullStatus.OFFSET_FOUND_NULL, offset, role.corrected(offset, next_file), bounds)
    return Pulled(find_status(batches, was_removed), offset, next_offset, bounds, batches)


def first_offset(scanned: pa.RecordBatch) -> int:
    """The queue offset of the first row of a slice."""
    return int(scanned.column("queueOffset")[0].as_py())


def find_status(batches: Sequence[pa.RecordBatch], was_removed: bool) -> PullStatus:
    """Rows 8 to 10 of the decision table (rules 3.2.1): how a scan ended."""
    if batches:
        return PullStatus.FOUND
    return PullStatus.MESSAGE_WAS_REMOVING if was_removed else PullStatus.NO_MATCHED_MESSAGE


class _Batch:
    """What one answer carries so far; whether it is full is asked before each entry, matching or not.

    ``measure`` gives the bytes that each row counts for.
    """

    def __init__(self, count_max: int, byte_max: int, measure: Callable[[pa.RecordBatch], pa.Array]) -> None:
        self.count_max = count_max
        self._byte_max = byte_max
        self._measure = measure
        self._count = self._bytes = 0
        self.is_full = False

    def take(self, scanned: pa.RecordBatch, message_filter: MessageFilter) -> tuple[int, list[int]]:
        """How many rows of a slice were looked at, and which of them were taken."""
        mask = message_filter.mask(scanned)
        if mask is not None and self._count == 0 and mask.true_count == 0:
            return scanned.num_rows, []
        passes = [True] * scanned.num_rows if mask is None else mask.to_pylist()
        taken: list[int] = []
        for index, size in enumerate(self._measure(scanned).to_pylist()):
            if self._count > 0 and (self._count >= self.count_max or self._bytes + size > self._byte_max):
                self.is_full = True
                return index, taken
            if passes[index]:
                taken.append(index)
                self._count += 1
                self._bytes += size
        return scanned.num_rows, taken
