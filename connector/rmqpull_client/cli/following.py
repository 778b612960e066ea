"""Follows topics: yields the messages that are stored from now on, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rmqpull_client.cli.searching import Found, split_rows
from rmqpull_client.model import Bounds, MessageFilter, MessageQueue, QueueRange, TopicBounds
from rmqpull_proto.names import TOOLS_GROUP

if TYPE_CHECKING:
    from rmqpull_client.loss import Loss
    from rmqpull_client.transports.port import BrokerClient

WAIT_MS = 5_000
"""How long one wait for messages lasts. Then the queues are asked for again, since topics get new ones."""

Report = Callable[[str], None]


class Follower:
    """Reads topics from offsets on, queue by queue, and goes on at the first message of a queue that is new.

    ``report`` gets a sentence about messages that were deleted before they were read.
    """

    def __init__(
        self,
        client: BrokerClient,
        topics: Sequence[str],
        offsets: Mapping[MessageQueue, int],
        message_filter: MessageFilter,
        report: Report,
    ) -> None:
        self._client = client
        self._topics = topics
        self._offsets = dict(offsets)
        self._filter = message_filter
        self._report = report

    def follow(self) -> Iterator[Sequence[Found]]:
        """Yields messages, in the order of their store times within each step, and nothing when a wait is over."""
        while True:
            ranges = self._list_ranges(self._client.query_bounds(self._topics))
            if ranges:
                yield from self._read(ranges)
            else:
                yield ()
                self._client.wait_for_messages(TOOLS_GROUP, self._offsets, WAIT_MS, self._filter)

    def _list_ranges(self, found: Mapping[str, TopicBounds]) -> list[QueueRange]:
        """Returns what is to be read now. A queue that ends before its offset was created again."""
        bounds: dict[MessageQueue, Bounds] = {}
        for topic in found.values():
            bounds |= topic.queues
        for queue, own in bounds.items():
            offset = self._offsets.get(queue)
            if offset is not None and offset > own.max_offset:
                self._report(f"queue {queue} ends at offset {own.max_offset} now: it is read from its begin on")
            if offset is None or offset > own.max_offset:
                self._offsets[queue] = own.min_offset
        return [
            QueueRange(queue, self._offsets[queue], own.max_offset)
            for queue, own in bounds.items()
            if self._offsets[queue] < own.max_offset
        ]

    def _read(self, ranges: Iterable[QueueRange]) -> Iterator[Sequence[Found]]:
        ranges = list(ranges)
        reading = self._client.read(TOOLS_GROUP, ranges, (), message_filter=self._filter, on_loss=self._report_loss)
        for step in reading:
            rows = [row for queue, batches in step for batch in batches for row in split_rows(queue, batch)]
            for row in rows:
                self._offsets[row.queue] = row.offset + 1
            yield sorted(rows, key=lambda row: row[:3])
        self._offsets.update({entry.queue: entry.until_offset for entry in ranges})

    def _report_loss(self, loss: Loss) -> None:
        self._report(loss.text)
