"""The plan of pipelined pulls: which pull goes next, and in which order its rows are given out.

The range of each queue is cut into *spans*, each as long as what one pull was seen to return. Many spans of a queue are
in flight at once, each with one pull. If a response stops short, the next pull of the span starts where it stopped. So
nothing is pulled twice and nothing is left out, whatever the broker returns. Responses come in any order; their pieces
are given out in the order of the queue.

The plan knows neither connections nor time. A pull that must be repeated stays in flight.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rmqpull_client.flow import MIB, QUEUE_MESSAGES_OVER_REMOTING, Flow
from rmqpull_client.model import MessageQueue, QueueRange

SPANS_MAX = 256
"""The spans of one queue that are in flight, or that wait for an earlier one."""
RESPONSE_BYTES = 256 << 10
"""The assumed size of a response before the first one: RocketMQ's maxTransferBytesOnMessageInMemory."""
FULL_RESPONSES = 64
"""After this many full responses in a row, the length of spans doubles."""
FILTERED_SPAN_MAX = 16_384
"""The longest span of a read with a filter. A pull that finds no match scans 800 offsets (rules 3.2)."""


@dataclass(frozen=True)
class PlanLimits:
    """The limits of a read: see :class:`rmqpull_client.flow.Flow`."""

    batch_size: int
    queue_messages_max: int
    queue_bytes_max: int
    bytes_max: int

    @classmethod
    def of(cls, flow: Flow) -> PlanLimits:
        """Returns the limits in messages and bytes."""
        return cls(
            flow.pull_batch_size,
            flow.pull_threshold_for_queue or QUEUE_MESSAGES_OVER_REMOTING,
            flow.pull_threshold_size_for_queue * MIB,
            flow.pull_threshold_size_for_topic * MIB,
        )


class SpanPiece:
    """What one pull showed of a queue: the offsets ``[from_offset, until_offset)``, as rows or as lost.

    ``content`` is whatever the caller has received. It may have rows outside the offsets, which other pieces have too.
    If it is None, the messages are lost and ``loss`` says why.
    """

    __slots__ = ("byte_count", "content", "from_offset", "loss", "queue_plan", "row_count", "until_offset")

    def __init__(
        self,
        queue_plan: QueuePlan,
        from_offset: int,
        until_offset: int,
        row_count: int = 0,
        byte_count: int = 0,
        content: Any = None,
        loss: str = "",
    ) -> None:
        self.queue_plan = queue_plan
        self.from_offset = from_offset
        self.until_offset = until_offset
        self.row_count = row_count
        self.byte_count = byte_count
        self.content = content
        self.loss = loss

    @property
    def queue(self) -> MessageQueue:
        """The queue of the piece."""
        return self.queue_plan.queue


class Span:
    """A part of a range. Its next pull starts at ``offset`` and asks for ``asked`` messages."""

    __slots__ = ("asked", "estimate", "is_head", "offset", "pieces", "queue_plan", "sent_s", "until_offset")

    def __init__(self, queue_plan: QueuePlan, from_offset: int, until_offset: int) -> None:
        self.queue_plan = queue_plan
        self.offset = from_offset
        self.until_offset = until_offset
        self.asked = 0
        self.estimate = 0
        self.sent_s = 0.0  # for the caller: when the pull was sent
        self.is_head = False
        self.pieces: list[SpanPiece] = []

    @property
    def queue(self) -> MessageQueue:
        """The queue of the span."""
        return self.queue_plan.queue


class QueuePlan:
    """The plan of one queue."""

    __slots__ = (
        "byte_count",
        "bytes_per_message",
        "cut_offset",
        "full_responses",
        "is_learnt",
        "largest_response",
        "message_count",
        "queue",
        "span_size",
        "spans",
        "until_offset",
    )

    def __init__(self, entry: QueueRange, span_size: int) -> None:
        self.queue, self.cut_offset, self.until_offset = entry
        self.span_size = span_size
        self.spans: deque[Span] = deque()
        self.is_learnt = False
        self.full_responses = 0
        self.bytes_per_message = 0.0
        self.largest_response = RESPONSE_BYTES
        self.message_count = self.byte_count = 0  # in flight, or received and not taken

    @property
    def is_done(self) -> bool:
        """Whether all pieces of the queue have been received."""
        return not self.spans and self.cut_offset >= self.until_offset

    def cut(self, until_offset: int) -> Span:
        """Cuts the next span off the range."""
        span = Span(self, self.cut_offset, until_offset)
        span.is_head = not self.spans
        self.cut_offset = until_offset
        self.spans.append(span)
        return span

    def estimate_bytes(self, message_count: int) -> int:
        """Returns how many bytes a response may have."""
        if not self.bytes_per_message:
            return self.largest_response
        return min(int(message_count * self.bytes_per_message) + 1, self.largest_response)


class PullPlan:
    """The pulls of all queues of a read."""

    def __init__(self, ranges: Sequence[QueueRange], limits: PlanLimits, is_filtered: bool) -> None:
        self._limits = limits
        self._is_filtered = is_filtered
        self._open = deque(
            QueuePlan(entry, limits.batch_size) for entry in ranges if entry.from_offset < entry.until_offset
        )
        self._unfinished = len(self._open)
        self._short: list[Span] = []  # their next pull has not started
        self._ready: deque[SpanPiece] = deque()
        self._byte_count = 0
        self.pulls_in_flight = 0

    @property
    def is_done(self) -> bool:
        """Whether everything has been received and taken."""
        return not self._unfinished and not self._ready

    @property
    def is_received(self) -> bool:
        """Whether everything has been received."""
        return not self._unfinished

    @property
    def has_ready(self) -> bool:
        """Whether there are pieces to take."""
        return bool(self._ready)

    def list_queues(self, broker_name: str) -> list[MessageQueue]:
        """Returns the queues of a broker that are not received."""
        return [plan.queue for plan in self._open if plan.queue.broker_name == broker_name]

    @property
    def byte_count(self) -> int:
        """The bytes that were received and not taken, plus those that the pulls in flight may bring."""
        return self._byte_count

    # --- pulls --------------------------------------------------------------------------------------------------------

    def start_pulls(self) -> list[Span]:
        """Returns the spans whose next pull is due. They count as in flight."""
        started: list[Span] = []
        if self._short:
            self._go_on(started)
        while not self._short:
            count = len(started)
            for plan in self._open:
                if (span := self._cut_next(plan)) is not None:
                    self._start(span, started)
            if len(started) == count:
                break
        self._open.rotate(-1)  # so that each queue gets its turn when the limits allow only a few pulls
        return started

    def _go_on(self, started: list[Span]) -> None:
        """Starts the next pulls of spans that stopped short. They go before new spans."""
        waiting: list[Span] = []
        for span in self._short:
            if self._fits(span.queue_plan, span.until_offset - span.offset):
                self._start(span, started)
            else:
                waiting.append(span)
        if waiting and not self.pulls_in_flight and not self._ready:
            # Only the first span of a queue frees memory, so its pull ignores the limits.
            head = next(span for span in waiting if span.is_head)
            waiting.remove(head)
            self._start(head, started)
        self._short = waiting

    def _start(self, span: Span, started: list[Span]) -> None:
        plan = span.queue_plan
        span.asked = min(span.until_offset - span.offset, self._limits.batch_size)
        span.estimate = plan.estimate_bytes(span.asked)
        plan.message_count += span.asked
        plan.byte_count += span.estimate
        self._byte_count += span.estimate
        self.pulls_in_flight += 1
        started.append(span)

    def _cut_next(self, plan: QueuePlan) -> Span | None:
        """Cuts the next span of a queue if a pull of it is within the limits."""
        limits = self._limits
        if (
            plan.cut_offset >= plan.until_offset
            # How far a pull with a filter gets is not known before its first response.
            or len(plan.spans) >= (SPANS_MAX if plan.is_learnt or not self._is_filtered else 1)
            or plan.message_count > limits.queue_messages_max
            or plan.byte_count > limits.queue_bytes_max
        ):
            return None
        until_offset = min(plan.cut_offset + plan.span_size, plan.until_offset)
        # A single pull may exceed the limit of bytes. Otherwise a very large message would never be read.
        is_only = not self.pulls_in_flight and not self._ready
        if not is_only and not self._fits(plan, until_offset - plan.cut_offset):
            return None
        return plan.cut(until_offset)

    def _fits(self, plan: QueuePlan, message_count: int) -> bool:
        estimate = plan.estimate_bytes(min(message_count, self._limits.batch_size))
        return self._byte_count + estimate <= self._limits.bytes_max

    # --- responses ----------------------------------------------------------------------------------------------------

    def accept(self, span: Span, next_offset: int, row_count: int, byte_count: int, content: Any) -> None:
        """Handles a response with rows, or one in which the filter dropped all messages up to ``next_offset``.

        ``next_offset`` is beyond the offset of the pull.
        """
        plan = span.queue_plan
        self._learn(span, next_offset, row_count, byte_count)
        if next_offset > span.until_offset == plan.cut_offset:  # the filter skipped messages beyond the span
            span.until_offset = plan.cut_offset = min(next_offset, plan.until_offset)
        until_offset = min(next_offset, span.until_offset)
        self._finish_pull(span, SpanPiece(plan, span.offset, until_offset, row_count, byte_count, content))

    def lose(self, span: Span, until_offset: int, loss: str) -> None:
        """Records that the messages before ``until_offset`` are lost, including those of spans that are not cut yet.

        ``until_offset`` is beyond the offset of the pull.
        """
        plan = span.queue_plan
        self._finish_pull(
            span, SpanPiece(plan, span.offset, min(until_offset, span.until_offset), loss=loss), until_offset
        )

    def _finish_pull(self, span: Span, piece: SpanPiece, lost_until: int = 0) -> None:
        plan = span.queue_plan
        self.pulls_in_flight -= 1
        plan.message_count += piece.row_count - span.asked
        plan.byte_count += piece.byte_count - span.estimate
        self._byte_count += piece.byte_count - span.estimate
        span.offset = piece.until_offset
        if span.is_head:
            self._make_ready(piece)
        else:
            span.pieces.append(piece)
        if span.offset < span.until_offset:
            self._short.append(span)
        if lost_until > plan.cut_offset:
            rest = plan.cut(min(lost_until, plan.until_offset))
            rest.pieces.append(SpanPiece(plan, rest.offset, rest.until_offset, loss=piece.loss))
            rest.offset = rest.until_offset
        if span.is_head and span.offset >= span.until_offset:
            self._release(plan)

    def _learn(self, span: Span, next_offset: int, row_count: int, byte_count: int) -> None:
        """Adapts the length of spans, and the expected size of responses, to a response."""
        plan = span.queue_plan
        passed = next_offset - span.offset
        plan.full_responses += 1
        if passed < span.asked:
            plan.span_size = passed
            plan.full_responses = 0
        elif plan.span_size < passed:
            plan.span_size = min(passed, FILTERED_SPAN_MAX)
        elif plan.full_responses >= FULL_RESPONSES:
            longest = FILTERED_SPAN_MAX if self._is_filtered else self._limits.batch_size
            plan.span_size = min(2 * plan.span_size, longest)
            plan.full_responses = 0
        if row_count:
            # It falls more slowly than it rises: an estimate that is too high does less harm.
            plan.bytes_per_message = max(byte_count / row_count, plan.bytes_per_message * 0.9)
            plan.largest_response = max(byte_count, plan.largest_response)
        plan.is_learnt = True

    def _release(self, plan: QueuePlan) -> None:
        """Gives out the spans up to the first one that is not complete."""
        spans = plan.spans
        while spans:
            head = spans[0]
            head.is_head = True
            for piece in head.pieces:
                self._make_ready(piece)
            head.pieces.clear()
            if head.offset < head.until_offset:
                return
            spans.popleft()
        if plan.cut_offset >= plan.until_offset:
            self._open.remove(plan)
            self._unfinished -= 1

    def _make_ready(self, piece: SpanPiece) -> None:
        if piece.content is None and not piece.loss:
            return  # the filter dropped all
        self._ready.append(piece)

    # --- the consumer -------------------------------------------------------------------------------------------------

    def take(self, rows_max: int, bytes_max: int, is_first: bool = True) -> list[SpanPiece]:
        """Returns the next pieces, in the order of each queue. They no longer count as pulled ahead.

        They are within the limits; but with ``is_first`` there is at least one piece if one is ready.
        """
        taken: list[SpanPiece] = []
        rows = byte_count = 0
        while self._ready:
            piece = self._ready[0]
            rows += piece.row_count
            byte_count += piece.byte_count
            if (taken or not is_first) and (rows > rows_max or byte_count > bytes_max):
                break
            taken.append(self._ready.popleft())
            plan = piece.queue_plan
            plan.message_count -= piece.row_count
            plan.byte_count -= piece.byte_count
            self._byte_count -= piece.byte_count
        return taken
