"""Reads ranges of queues over the remoting protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rmqpull_client.errors import BrokerBusy, BrokerFailed, RequestRefused
from rmqpull_client.flow import Flow
from rmqpull_client.loss import OnLoss
from rmqpull_client.model import MessageFilter, MessageQueue, QueueRange
from rmqpull_client.transports.port import OnReset, QueueRows, log_reset
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_client.transports.remoting.offset_queries import make_queue_request
from rmqpull_client.transports.remoting.reading.pull_plan import PlanLimits, PullPlan, SpanPiece
from rmqpull_client.transports.remoting.reading.reader import Reader
from rmqpull_client.transports.remoting.reading.rows import decode_pieces
from rmqpull_proto.remoting.codes import VERSION_5, RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.routes import read_topic_attributes


class Read:
    """One read: see :meth:`rmqpull_client.transports.port.BrokerClient.read` for its arguments."""

    def __init__(
        self,
        channel: RemotingChannel,
        flow: Flow,
        group: str,
        columns: Sequence[str],
        message_filter: MessageFilter,
        on_loss: OnLoss,
        on_reset: OnReset = log_reset,
    ) -> None:
        self._channel = channel
        self._flow = flow
        self._group = group
        self._columns = columns
        self._filter = message_filter
        self._on_loss = on_loss
        self._on_reset = on_reset
        self._are_compacted: dict[str, bool] = {}

    def read(self, ranges: Sequence[QueueRange]) -> Iterator[list[QueueRows]]:
        """Yields the rows of ranges, batch by batch."""
        plan = PullPlan(ranges, PlanLimits.of(self._flow), not self._filter.keeps_everything)
        reader = Reader(self._channel, self._group, plan, self._filter, self._is_gone, on_reset=self._on_reset)
        try:
            while pieces := reader.take():
                yield from self._deliver(pieces)
        finally:
            reader.close()

    def _deliver(self, pieces: Sequence[SpanPiece]) -> Iterator[list[QueueRows]]:
        """Yields the rows of pieces. What follows a damaged record in its response is pulled again."""
        decoded = decode_pieces(pieces, self._columns, self._filter)
        for loss in decoded.losses:
            self._on_loss(loss)
        for gap in decoded.gaps:
            if not self._is_compacted(gap.queue):
                self._on_loss(gap)
        if decoded.rows:
            yield decoded.rows
        for damage in decoded.damages:
            self._on_loss(damage.loss)
            yield from self.read([damage.rest])
            yield from self._deliver(damage.later)

    def _is_gone(self, queue: MessageQueue) -> bool:
        """Whether the master of a queue's broker is registered, but the topic's route does not name it.

        The route is requested last: one from the time when the broker was away would not name it either.
        """
        return queue.broker_name in self._channel.listings.list_masters() and not self._channel.routes.has_broker(
            queue.topic, queue.broker_name
        )

    def _is_compacted(self, queue: MessageQueue) -> bool:
        """Whether the broker keeps only the last message of each key of a topic: then gaps are not losses."""
        topic = queue.topic
        if topic not in self._are_compacted:
            try:
                attributes = self._ask_attributes(queue)
            except (BrokerBusy, BrokerFailed):
                raise  # unknown: it may be compacted
            except (RequestRefused, WireError):  # the server cannot tell, so the topic counts as not compacted
                attributes = {}
            self._are_compacted[topic] = attributes.get("cleanup.policy") == "COMPACTION"
        return self._are_compacted[topic]

    def _ask_attributes(self, queue: MessageQueue) -> Mapping[str, str]:
        """Returns the attributes of a topic. 4.x has none, and 4.9.0 does not even respond to the request for them."""
        known_by_all = make_queue_request(RequestCode.GET_MAX_OFFSET, queue)
        if self._channel.call(Target.of(queue), known_by_all).version < VERSION_5:
            return {}
        request = RemotingCommand(RequestCode.GET_TOPIC_CONFIG, {"topic": queue.topic})
        return read_topic_attributes(self._channel.call(Target.of(queue), request).body)
