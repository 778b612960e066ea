"""What the store knows of each segment of the log: where queues were at its beginning, and how old its messages are.

Rows of a stage are written before the commit makes them readable. So a segment may have rows with higher offsets than
those of later segments, and it is as old as the last commit of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from rmqpull_broker.core.model import MessageQueue


class SegmentMark(NamedTuple):
    """The queues at the beginning of a segment: every message below these offsets is in an earlier segment.

    No earlier message was written after ``newest_written_ms``, which is the newest store time unless the clock was set
    back since.
    """

    segment: int
    newest_store_ms: int
    newest_written_ms: int
    max_offsets: dict[MessageQueue, int]


class SplicedSegment(NamedTuple):
    """What commits made readable of the rows of a segment: the end of its last rows in each queue, and the newest store
    time of them.

    The last commit was not after ``newest_written_ms``, which is that time unless the clock was set back since.
    """

    newest_store_ms: int
    newest_written_ms: int
    ends: dict[MessageQueue, int]


class NewestTimes(NamedTuple):
    """The newest store time; the latest time at which the last message can have been written; the time at which the
    clock was last found to have been set back, or 0."""

    store_ms: int
    written_ms: int
    last_read_ms: int


class SegmentMarks:
    """The marks of all segments in order, and the newest times of the messages."""

    def __init__(self) -> None:
        self.marks: list[SegmentMark] = []
        self.spliced: dict[int, SplicedSegment] = {}
        self.times = NewestTimes(0, 0, 0)
        # Whether the newest marked segment has messages.
        self.has_messages = False

    def restore(
        self, marks: Iterable[SegmentMark], spliced: Mapping[int, SplicedSegment], *, has_messages: bool
    ) -> None:
        """Takes over what a snapshot has."""
        self.marks, self.spliced, self.has_messages = list(marks), dict(spliced), has_messages

    # --- writing -------------------------------------------------------------------------------------------------

    def is_new(self, segment: int) -> bool:
        """Whether nothing was applied yet that is in this segment, or in a later one."""
        return not self.marks or self.marks[-1].segment < segment

    def begin(self, segment: int, max_offsets: dict[MessageQueue, int]) -> None:
        """Marks the beginning of a segment."""
        self.marks.append(SegmentMark(segment, self.times.store_ms, self.times.written_ms, max_offsets))
        self.has_messages = False

    def add_messages(self, store_ms: int) -> None:
        """Notes messages that were stored at that time."""
        store, written, read = self.times
        self.times = NewestTimes(max(store, store_ms), max(written, store_ms), read)
        self.has_messages = True

    def add_splice(self, queue: MessageQueue, first_offset: int, ends: Mapping[int, int], store_ms: int) -> None:
        """Notes rows of a queue that a commit made readable. ``ends`` has the last one of each segment, from 1 on."""
        for segment, end in ends.items():
            known_store_ms, known_written_ms, known_ends = self.spliced.get(segment) or SplicedSegment(0, 0, {})
            known_ends[queue] = max(known_ends.get(queue, 0), first_offset + end)
            newest = SplicedSegment(max(known_store_ms, store_ms), max(known_written_ms, store_ms), known_ends)
            self.spliced[segment] = newest

    def drop_queues(self, queues: Set[MessageQueue]) -> None:
        """Forgets queues of a deleted topic. A queue that is created again starts at offset 0."""
        tables = [mark.max_offsets for mark in self.marks] + [segment.ends for segment in self.spliced.values()]
        for table in tables:
            for queue in queues:
                table.pop(queue, None)

    def forget_before(self, position: int) -> None:
        """Removes what is known of segments before ``position``, where the log now begins."""
        self.marks = [mark for mark in self.marks if mark.segment >= position]
        self.spliced = {segment: spliced for segment, spliced in self.spliced.items() if segment >= position}

    # --- ages ----------------------------------------------------------------------------------------------------

    def read_clock(self, time_ms: int) -> None:
        """Notes that everything stored so far was written no later than ``time_ms``."""
        self.marks = [mark._replace(newest_written_ms=min(mark.newest_written_ms, time_ms)) for mark in self.marks]
        self.spliced = {
            segment: spliced._replace(newest_written_ms=min(spliced.newest_written_ms, time_ms))
            for segment, spliced in self.spliced.items()
        }
        store_ms, written_ms, _ = self.times
        self.times = NewestTimes(store_ms, min(written_ms, time_ms), time_ms)

    def trust_store_times(self, now_ms: int) -> bool:
        """Treats store times up to ``now_ms`` as the times of writing again, whatever the clock said since.

        The clock was set ahead. If it was wrong when it was read, new messages would look old. Returns whether this
        concerns all messages.
        """
        self.marks = [
            mark._replace(newest_written_ms=mark.newest_store_ms) if mark.newest_store_ms <= now_ms else mark
            for mark in self.marks
        ]
        self.spliced = {
            segment: spliced._replace(newest_written_ms=spliced.newest_store_ms)
            if spliced.newest_store_ms <= now_ms
            else spliced
            for segment, spliced in self.spliced.items()
        }
        if self.times.store_ms > now_ms:
            return False
        self.times = self.times._replace(written_ms=self.times.store_ms)
        return True

    @property
    def has_reads(self) -> bool:
        """Whether the age of any message does not follow from its store time."""
        known: list[SegmentMark | SplicedSegment] = [*self.marks, *self.spliced.values()]
        return self.times.written_ms < self.times.store_ms or any(
            newest.newest_written_ms < newest.newest_store_ms for newest in known
        )

    def find_newest_written_ms(self, segment: int, end: int) -> int | None:
        """Returns the latest time at which a message of a closed segment, or of one before, was written or committed.

        None while nothing was written after it.
        """
        mark = self.find(end)
        if mark is None:
            return None
        spliced = self.spliced.get(segment)
        return mark.newest_written_ms if spliced is None else max(mark.newest_written_ms, spliced.newest_written_ms)

    # --- offsets -------------------------------------------------------------------------------------------------

    def find(self, position: int) -> SegmentMark | None:
        """Returns the mark of the first segment at or after ``position``; None while nothing was written there."""
        return next((mark for mark in self.marks if mark.segment >= position), None)

    def find_ends_before(self, position: int) -> dict[MessageQueue, int]:
        """Returns for each queue the end of its last row in the log before ``position``, a segment's beginning."""
        mark = self.find(position)
        ends = {} if mark is None else dict(mark.max_offsets)
        for segment, spliced in self.spliced.items():
            if segment < position:
                for queue, end in spliced.ends.items():
                    ends[queue] = max(end, ends.get(queue, 0))
        return ends
