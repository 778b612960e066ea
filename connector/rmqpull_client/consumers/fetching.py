"""Reads the queues of a consumer ahead of its user, who calls from one thread.

Requests go out when the user asks for messages, many at once and within the limits of flow control. What has arrived
and was not taken is dropped when positions change.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing

from rmqpull_client.errors import RmqpullError
from rmqpull_client.flow import Flow
from rmqpull_client.loss import Loss
from rmqpull_client.model import Bounds, MessageFilter, MessageQueue, QueueRange
from rmqpull_client.transports.port import OnReset, QueueRows
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_client.transports.remoting.offset_queries import BoundsQuery, make_queue_request, read_offset
from rmqpull_client.transports.remoting.reading.read import Read
from rmqpull_client.transports.remoting.reading.waiting import ParkedPulls
from rmqpull_proto.columns import select_pulled
from rmqpull_proto.remoting.codes import RequestCode

_logger = logging.getLogger(__name__)
Step = Sequence[QueueRows]
_RANGE_ROWS = 50_000
"""The most offsets of a queue that are read before all queues are asked for their bounds again."""
_IDLE_WAITS_MAX = 20
"""After so many waits without messages the bounds are asked for. Then queues are noticed that no pull is parked on."""


class Fetcher:
    """Reads queues from positions on.

    Args:
        channel: The calls to the cluster.
        group: The consumer group.
        columns: What to read of a message: columns of a pull.
        flow: The limits of reading ahead.
        get_filter: Returns the filter of a topic.
        on_reset: Called when a broker tells that the group was reset.
        on_passed: Called with the offset of a queue before which there is nothing to read.
    """

    def __init__(
        self,
        channel: RemotingChannel,
        group: str,
        columns: Sequence[str],
        flow: Flow,
        get_filter: Callable[[str], MessageFilter],
        on_reset: OnReset,
        on_passed: Callable[[MessageQueue, int], None],
    ) -> None:
        self._channel = channel
        self._group = group
        self._columns = columns
        self._names = select_pulled(columns).names if columns else None
        self._flow = flow
        self._get_filter = get_filter
        self._on_reset = on_reset
        self._on_passed = on_passed
        self._bounds = BoundsQuery(channel)
        self._parked = ParkedPulls(channel, flow, on_reset=on_reset)
        self._readings: list[Iterator[Step]] = []
        self._idle_waits = _IDLE_WAITS_MAX

    def restart(self) -> None:
        """Drops what is being read: positions have changed."""
        self._idle_waits = _IDLE_WAITS_MAX
        for reading in self._readings:
            with closing(reading):  # type: ignore[type-var]
                pass
        self._readings.clear()

    def close(self) -> None:
        """Closes all connections."""
        self.restart()
        self._parked.close()

    def fetch(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> Step:
        """Returns some messages from these positions on, or nothing: then it has waited, or passed over some.

        It continues with what is being read, so positions are those after the messages that it has returned.
        """
        if not self._readings and self._idle_waits >= _IDLE_WAITS_MAX:
            self._begin(positions)
        if not self._readings:
            # Parked pulls announce messages, so the bounds are not asked for after each wait.
            has_news = self._wait(positions, timeout_ms)
            self._idle_waits = _IDLE_WAITS_MAX if has_news else self._idle_waits + 1
            return ()
        reading = self._readings.pop(0)
        step = next(reading, None)
        if step is not None:
            self._readings.append(reading)  # readings take turns
        elif not self._readings:
            self._idle_waits = _IDLE_WAITS_MAX
        return step or ()

    def _begin(self, positions: Mapping[MessageQueue, int]) -> None:
        bounds = self._bounds.query_queues(list(positions))
        ranges = defaultdict[MessageFilter, list[QueueRange]](list)
        for queue, position in positions.items():
            own = bounds[queue]
            first = position if own.clamp(position) == position else self._repair(queue, position)
            if first is not None and first < (until := min(own.max_offset, first + _RANGE_ROWS)):
                ranges[self._get_filter(queue.topic)].append(QueueRange(queue, first, until))
        self._readings = [self._read(own, message_filter) for message_filter, own in ranges.items()]
        self._idle_waits = 0

    def _repair(self, queue: MessageQueue, position: int) -> int | None:
        """Returns where to continue in a queue that lacks an offset, as its master says; None if nothing is known."""
        codes = (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
        try:
            answers = self._channel.call_all((Target.of(queue), make_queue_request(code, queue)) for code in codes)
        except RmqpullError:
            return None  # a slave may lack messages that its master has
        first = Bounds(*map(read_offset, answers)).clamp(position)
        if first != position:
            _logger.warning(
                "Consumer group %s continues at offset %d of queue %s, which has no offset %d",
                self._group,
                first,
                queue,
                position,
            )
            self._on_passed(queue, first)
        return first

    def _read(self, ranges: Sequence[QueueRange], message_filter: MessageFilter) -> Iterator[Step]:
        read = Read(
            self._channel, self._flow, self._group, self._columns, message_filter, self._note_loss, self._on_reset
        )
        for step in read.read(ranges):
            yield step if self._names is None else [_select(rows, self._names) for rows in step]
        for own in ranges:  # a filter may have passed over the last messages
            self._on_passed(own.queue, own.until_offset)

    def _wait(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        by_filter = defaultdict[MessageFilter, dict[MessageQueue, int]](dict)
        for queue, position in positions.items():
            by_filter[self._get_filter(queue.topic)][queue] = position
        for message_filter, own in by_filter.items():
            if self._parked.wait(self._group, own, timeout_ms // len(by_filter), message_filter):
                return True
        return False

    def _note_loss(self, loss: Loss) -> None:
        _logger.warning("Consumer group %s: %s", self._group, loss.text)


def _select(rows: QueueRows, names: Sequence[str]) -> QueueRows:
    """Leaves out a column that only the filter needed."""
    return QueueRows(rows.queue, [batch.select(names) for batch in rows.batches])
