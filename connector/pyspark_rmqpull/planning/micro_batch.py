"""How far a micro-batch goes and when it runs: AvailableNow's ends, and the limits of a trigger shared among queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rmqpull_client.loss import Loss, refuse_loss
from rmqpull_client.model import MessageQueue, Part, QueueRange, RangeToCut
from rmqpull_client.transports.port import RangeCutter

INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class Limits:
    """The options that limit a micro-batch, by their names; None for no limit."""

    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 0
    max_bytes_per_trigger: int | None = None

    @property
    def names(self) -> list[str]:
        """The options that are set, without the delay, which has no effect alone."""
        limits = {
            "maxOffsetsPerTrigger": self.max_offsets_per_trigger,
            "minOffsetsPerTrigger": self.min_offsets_per_trigger,
            "maxBytesPerTrigger": self.max_bytes_per_trigger,
        }
        return [name for name, limit in limits.items() if limit is not None]

    @property
    def is_limited(self) -> bool:
        """Whether a micro-batch may take less than everything."""
        return bool(self.names)


class BatchEnds:
    """Says how far micro-batches may go. With AvailableNow it keeps the ends that it sees first."""

    def __init__(self) -> None:
        self.is_available_now = False
        self._planned: Mapping[MessageQueue, int] | None = None

    def find_ends(
        self, starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int], may_lose: bool
    ) -> dict[MessageQueue, int]:
        """Returns where a batch with these starts may end; never before its start.

        Raises DataLoss for a queue that now ends before its planned end, unless ``may_lose``.
        """
        if self.is_available_now:
            ends = self._keep_planned(ends, may_lose)
        # A queue that appeared after AvailableNow planned its ends stays at its start; so does one that is lost.
        return {queue: max(start, ends.get(queue, start)) for queue, start in starts.items()}

    def _keep_planned(self, ends: Mapping[MessageQueue, int], may_lose: bool) -> Mapping[MessageQueue, int]:
        if self._planned is None:
            self._planned = ends
        if not may_lose:
            _refuse_lost_plan(self._planned, ends)
            return self._planned
        # Do not wait for messages that were lost in the meantime.
        return {queue: min(end, ends.get(queue, end)) for queue, end in self._planned.items()}


class BatchSizer:
    """Says when a micro-batch runs and how much it takes. ``now_ms`` is any clock that never goes back.

    Its memory ends with the process: a restarted query runs at once, as Kafka's source does (rules 8.4).
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._ran_ms: int | None = None
        self._passed_over: tuple[MessageQueue, ...] = ()

    def compute_delay_ms(
        self, starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int], now_ms: int
    ) -> int:
        """Returns how long the batch may still wait for more messages; 0 when it must run now.

        A batch runs at once when it is the first, when it has enough messages, or when ``maxTriggerDelay`` has
        passed since the last batch that had messages. A batch without messages does not restart the delay.
        """
        minimum = self._limits.min_offsets_per_trigger
        if minimum is None or self._ran_ms is None or count_messages(starts, ends) >= minimum:
            return 0
        return max(self._ran_ms + self._limits.max_trigger_delay_ms - now_ms, 0)

    def admit(
        self,
        starts: Mapping[MessageQueue, int],
        ends: Mapping[MessageQueue, int],
        cutter: RangeCutter,
        now_ms: int,
    ) -> dict[MessageQueue, int]:
        """Returns the end of each queue in the batch that runs now, within the limits of messages and of bytes.

        Raises whatever a request to the broker raises.
        """
        limits, reached = self._limits, dict(ends)
        if limits.max_offsets_per_trigger is not None:
            reached = limit_rows(starts, reached, limits.max_offsets_per_trigger)
        if limits.max_bytes_per_trigger is not None:
            reached, self._passed_over = limit_bytes(
                starts, reached, limits.max_bytes_per_trigger, cutter, self._passed_over
            )
        if count_messages(starts, reached) > 0:
            self._ran_ms = now_ms
        return reached


class AdmittedEnds(NamedTuple):
    """The end of each queue, and the queues that had no room, in the order in which they get room next time."""

    ends: dict[MessageQueue, int]
    passed_over: tuple[MessageQueue, ...] = ()


def count_messages(starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int]) -> int:
    """Returns the number of messages between starts and ends."""
    return sum(max(end - starts[queue], 0) for queue, end in ends.items())


def limit_rows(
    starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int], rows_max: int
) -> dict[MessageQueue, int]:
    """Returns the end of each queue when about ``rows_max`` rows are admitted in all.

    Each queue gets a share in proportion to its backlog, and at least one row, so that no queue starves
    (``KafkaMicroBatchStream.rateLimit``, rules 8.4). Rounding makes the sum approximate.
    """
    backlog = {queue: end - starts[queue] for queue, end in ends.items() if end > starts[queue]}
    total = sum(backlog.values())
    if total <= rows_max:
        return dict(ends)
    admitted = {queue: max(1, rows_max * size // total) for queue, size in backlog.items()}
    return {queue: min(end, starts[queue] + admitted.get(queue, 0)) for queue, end in ends.items()}


def limit_bytes(
    starts: Mapping[MessageQueue, int],
    ends: Mapping[MessageQueue, int],
    bytes_max: int,
    cutter: RangeCutter,
    passed_over: Sequence[MessageQueue] = (),
) -> AdmittedEnds:
    """Returns the end of each queue when at most ``bytes_max`` bytes are admitted in all.

    First each queue gets room for one message while there is room, starting with the queues that were passed over last
    time, so that no queue starves. The queues share the rest in proportion to their backlog in bytes, and the queue
    with the largest backlog gets what these shares leave. A message above the limit goes alone when its queue comes
    first. A queue that the broker no longer knows is admitted whole: its reader reports the loss.
    """
    backlog = [QueueRange(queue, starts[queue], end) for queue, end in sorted(ends.items()) if end > starts[queue]]
    firsts, wholes = _measure_firsts_and_wholes(backlog, cutter)
    if sum(whole.byte_count for whole in wholes.values()) <= bytes_max:
        return AdmittedEnds(dict(ends))
    urgent = [queue for queue in passed_over if queue in firsts]
    order = [*urgent, *(queue for queue in firsts if queue not in urgent)]
    admitted, left = _admit_firsts(order, firsts, bytes_max)
    reached = {queue: firsts[queue].until_offset for queue in admitted}
    rests = {
        queue: _Rest(ends[queue], wholes[queue].byte_count - firsts[queue].byte_count)
        for queue in admitted
        if reached[queue] < ends[queue]
    }
    if left > 0:
        reached |= _share_all(reached, rests, left, cutter)
    stopped = {entry.queue: entry.from_offset for entry in backlog}
    return AdmittedEnds({**ends, **stopped, **reached}, tuple(queue for queue in order if queue not in reached))


def _measure_firsts_and_wholes(
    backlog: Sequence[QueueRange], cutter: RangeCutter
) -> tuple[dict[MessageQueue, Part], dict[MessageQueue, Part]]:
    """Returns the first message of each queue, and the whole backlog of each, with their bytes."""
    wanted = [RangeToCut(*entry, byte_max=byte_max, parts_max=1) for byte_max in (0, INT64_MAX) for entry in backlog]
    parts = cutter.cut_ranges(wanted) if wanted else []
    found = [next(iter(cut), Part(entry.until_offset, 0)) for entry, cut in zip(wanted, parts, strict=True)]
    queues = [entry.queue for entry in backlog]
    return dict(zip(queues, found, strict=False)), dict(zip(queues, found[len(backlog) :], strict=True))


class _Rest(NamedTuple):
    """The backlog of a queue after its first message: its end, and about how many bytes it has."""

    until_offset: int
    byte_count: int


def _admit_firsts(
    order: Sequence[MessageQueue], firsts: Mapping[MessageQueue, Part], bytes_max: int
) -> tuple[list[MessageQueue], int]:
    """Returns the queues whose first message fits, and the bytes left; a message above the limit leaves none."""
    admitted, left = [], bytes_max
    for queue in order:
        size = firsts[queue].byte_count
        if size <= left:
            admitted.append(queue)
            left -= size
        elif not admitted:
            return [queue], 0
    return admitted, left


def _share_all(
    reached: Mapping[MessageQueue, int], rests: Mapping[MessageQueue, _Rest], left: int, cutter: RangeCutter
) -> dict[MessageQueue, int]:
    """Returns the ends that ``left`` bytes allow: each queue by its share, then the longest by what remains."""
    shared, left = _share(reached, rests, left, cutter)
    unfinished = {queue: rest for queue, rest in rests.items() if shared.get(queue, reached[queue]) < rest.until_offset}
    if unfinished and left > 0:
        longest = max(unfinished, key=lambda queue: unfinished[queue].byte_count)
        shared |= _share({**reached, **shared}, {longest: unfinished[longest]}, left, cutter)[0]
    return shared


def _share(
    reached: Mapping[MessageQueue, int], rests: Mapping[MessageQueue, _Rest], left: int, cutter: RangeCutter
) -> tuple[dict[MessageQueue, int], int]:
    """Returns the ends of the queues in ``rests`` by their shares of ``left`` bytes, and the bytes that remain."""
    total = sum(rest.byte_count for rest in rests.values())
    wanted = [
        RangeToCut(queue, reached[queue], end, byte_max=left * size // max(total, 1), parts_max=1)
        for queue, (end, size) in rests.items()
    ]
    parts = cutter.cut_ranges(wanted) if wanted else []
    taken = {
        asked.queue: cut[0]
        for asked, cut in zip(wanted, parts, strict=True)
        if cut and cut[0].byte_count <= asked.byte_max
    }
    ends = {queue: part.until_offset for queue, part in taken.items()}
    return ends, left - sum(part.byte_count for part in taken.values())


def _refuse_lost_plan(planned: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int]) -> None:
    """Raises DataLoss for a queue that now ends before its planned end.

    AvailableNow plans once (rules 8.5): without this check, the batch that gets there would fail in its tasks.
    """
    for queue, until_offset in sorted(planned.items()):
        end = ends.get(queue, until_offset)
        if end < until_offset:
            text = (
                f"{until_offset - end} messages of queue {queue} are lost: the query planned to read it to offset "
                f"{until_offset}, but it now ends at {end}. The topic was truncated or created again."
            )
            resume = f"reads the queue to its end, offset {end}"
            refuse_loss(Loss(queue, end, until_offset, text, resume))
