"""The client for servers with ``rmqpull.v1``: whole batches in columns, many queues in one call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from pyspark_rmqpull.client.channel import BrokerChannel, Unserved
from pyspark_rmqpull.client.cutting import cut_ranges
from pyspark_rmqpull.client.filtering import expression_of, keep_tagged, refuse_filter, travelling
from pyspark_rmqpull.client.port import NO_CREATION_IDS, QueueRows
from pyspark_rmqpull.cutting import Part, RangeToCut
from pyspark_rmqpull.errors import OptionError, RequestRefused
from pyspark_rmqpull.filters import EVERYTHING, MessageFilter
from pyspark_rmqpull.loss import Loss, OnLoss, outside, refuse
from pyspark_rmqpull.model import Bounds, MessageQueue, QueueRange, TopicBounds
from pyspark_rmqpull.namespace import plain
from rmqpull_proto import columns as wire
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.rmqpull.v1 import admin_pb2 as admin
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rpc import ADMIN, COLUMNS, MESSAGING

PULL_ROWS_MAX = 10_000
PULL_BYTES_MAX = 4 << 20
"""One pull is one Arrow batch as Spark takes it (architecture § 4). With one batch in Spark's hands and one pull under
way, a task holds at most two of them, or two messages that are larger."""

_COMPLETE = (v1.PullStatus.FOUND, v1.PullStatus.NOT_REACHED, v1.PullStatus.NO_MATCHED_MESSAGE)
"""Answers of pulls that met every message from their offset to the next one."""

_logger = logging.getLogger(__name__)


class ColumnarClient:
    """See :class:`pyspark_rmqpull.client.port.BrokerClient`."""

    def __init__(self, channel: BrokerChannel) -> None:
        self._channel = channel

    def extensions(self) -> Sequence[str]:
        """What the server offers beside the standard protocol. Raises Unserved when it has nothing to tell."""
        answer = self._channel.call(COLUMNS.methods["DescribeServer"], v1.DescribeServerRequest())
        return list(answer.extensions)

    @property
    def endpoints(self) -> str:
        """Where the broker is."""
        return self._channel.endpoints

    def bounds(self, topics: Sequence[str], query_id: str | None = None) -> dict[str, TopicBounds]:
        """The queues of each topic with their bounds, from one call."""
        request = v1.QueryBoundsRequest(
            topics=[v1.TopicBoundsRequest(topic=topic) for topic in topics], query_id=query_id or ""
        )
        answer = self._channel.call(COLUMNS.methods["QueryBounds"], request)
        return {entry.topic: _topic_bounds(entry) for entry in answer.topics if entry.status.code == v2.Code.OK}

    def cut_ranges(self, wanted: Sequence[RangeToCut]) -> list[list[Part]]:
        """One call for about a thousand parts."""
        return cut_ranges(self._channel, wanted)

    def report_lost(self, query_id: str, losses: Sequence[Loss]) -> None:
        """One call."""
        ranges = [
            v1.LostRange(queue=_queue(loss.queue), from_offset=loss.from_offset, until_offset=loss.until_offset)
            for loss in losses
        ]
        request = v1.ReportRowsLostRequest(query_id=query_id, ranges=ranges)
        self._channel.call(COLUMNS.methods["ReportRowsLost"], request)

    def topic_names(self) -> list[str]:
        """All topics, from one call."""
        return listed_topics(self._channel)

    def check_filter(self, group: str, queue: MessageQueue, offset: int, message_filter: MessageFilter) -> None:
        """A pull of an empty range."""
        request = _pull_request(group, [QueueRange(queue, offset, offset)], ["queueOffset"], {}, message_filter)
        try:
            answer = self._channel.call(COLUMNS.methods["PullColumns"], request)
        except RequestRefused as refusal:
            refuse_filter(message_filter, refusal)
            raise
        for result in filter(_is_reset, answer.queues):
            log_reset(group, queue, result.next_offset)

    def wait_for_messages(
        self,
        group: str,
        offsets: Mapping[MessageQueue, int],
        timeout_ms: int,
        message_filter: MessageFilter = EVERYTHING,
    ) -> bool:
        """A pull over all queues, held by the broker until the first arrival."""
        request = v1.PullColumnsRequest(
            group=group,
            queues=[v1.QueuePull(queue=_queue(queue), offset=offset) for queue, offset in offsets.items()],
            filter_expression=expression_of(message_filter),
            columns=["queueOffset"],
            max_rows=1,
            long_polling_timeout_ms=timeout_ms,
        )
        while True:
            try:
                answer = self._channel.call(COLUMNS.methods["PullColumns"], request, extra_ms=timeout_ms)
            except RequestRefused as refusal:
                if refusal.code != "TOO_MANY_REQUESTS":  # so many wait already; that is no reason to end a query
                    raise
                return True
            results = list(zip(offsets.items(), answer.queues, strict=True))
            resets = [(queue, result) for (queue, _), result in results if _is_reset(result)]
            for queue, result in resets:
                log_reset(group, queue, result.next_offset)
            if any(result.next_offset != offset for (_, offset), result in results if not _is_reset(result)):
                return True
            if not resets:
                return False

    def read(
        self,
        group: str,
        ranges: Sequence[QueueRange],
        columns: Sequence[str],
        creation_ids: Mapping[str, str] = NO_CREATION_IDS,
        message_filter: MessageFilter = EVERYTHING,
        on_loss: OnLoss = refuse,
    ) -> Iterator[Sequence[QueueRows]]:
        """Pulls over all ranges at once, in columns; the next one is under way while this one is taken."""

        def pull(ranges: Sequence[QueueRange]) -> Callable[[], v1.PullColumnsResponse] | None:
            request = _pull_request(group, ranges, travelling(columns, message_filter), creation_ids, message_filter)
            return self._channel.start(COLUMNS.methods["PullColumns"], request) if ranges else None

        is_filtered = not message_filter.keeps_everything
        waiting = [entry for entry in ranges if entry.from_offset < entry.until_offset]
        answer_of_next = pull(waiting)
        while answer_of_next is not None:
            answer, asked = answer_of_next(), waiting
            waiting = [
                QueueRange(entry.queue, at, entry.until_offset)
                for entry, result in zip(asked, answer.queues, strict=True)
                if (at := _next_offset(group, entry, result, is_filtered, on_loss)) < entry.until_offset
            ]
            # The next pull is under way while Spark takes this batch.
            answer_of_next = pull(waiting)
            rows = keep_tagged(_rows(asked, answer), message_filter)
            if rows:
                yield rows

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Sets all of the group's offsets or none."""
        entries = [v1.QueueOffset(queue=_queue(queue), offset=offset) for queue, offset in offsets.items()]
        self._channel.call(COLUMNS.methods["CommitOffsets"], v1.CommitOffsetsRequest(group=group, offsets=entries))

    def committed(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The group's offsets; None where the broker has none."""
        return committed_offsets(self._channel, group, queues)

    def offsets_at(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """The first offset of each queue that was stored then or later."""
        return offsets_at_times(self._channel, timestamps_ms)

    def publish(self, topic: str, batch: pa.RecordBatch) -> None:
        """One call, kept whole or not at all."""
        request = v1.PublishColumnsRequest(topic=topic, arrow_ipc=wire.write_stream(batch.schema, [batch]))
        self._channel.call(COLUMNS.methods["PublishColumns"], request)

    def close(self) -> None:
        """Lets the connection of this process go."""
        self._channel.close()


def listed_topics(channel: BrokerChannel) -> list[str]:
    """Topics by the admin service, which a server of either kind may have."""
    try:
        answer = channel.call(ADMIN.methods["ListTopics"], admin.ListTopicsRequest())
    except Unserved:
        raise OptionError(
            f"Option topicPattern needs a list of all topics, which the server at {channel.endpoints} does not give: "
            "it lacks AdminService of rmqpull.v1 (extension admin). Name the topics with option topic instead."
        ) from None
    names = (
        plain(channel.connection.namespace, entry.topic.name) for entry in answer.topics if not entry.topic.is_system
    )
    return [name for name in names if name is not None]


def committed_offsets(
    channel: BrokerChannel, group: str, queues: Sequence[MessageQueue]
) -> dict[MessageQueue, int | None]:
    """Consumer offsets by the standard GetOffset, which every server of either kind has."""
    method = MESSAGING.methods["GetOffset"]
    answers = {
        queue: channel.start(
            method, messaging.GetOffsetRequest(group=v2.Resource(name=group), message_queue=standard_queue(queue))
        )
        for queue in queues
    }
    offsets: dict[MessageQueue, int | None] = {}
    for queue, answer in answers.items():
        try:
            offsets[queue] = answer().offset
        except RequestRefused as refusal:
            if refusal.code != "OFFSET_NOT_FOUND":
                raise
            offsets[queue] = None
    return offsets


def offsets_at_times(channel: BrokerChannel, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
    """Searches by store time with the standard QueryOffset, all queues at once."""
    answers = {}
    for queue, timestamp_ms in timestamps_ms.items():
        request = messaging.QueryOffsetRequest(
            message_queue=standard_queue(queue), query_offset_policy=v2.QueryOffsetPolicy.TIMESTAMP
        )
        request.timestamp.FromMilliseconds(timestamp_ms)
        answers[queue] = channel.start(MESSAGING.methods["QueryOffset"], request)
    return {queue: answer().offset for queue, answer in answers.items()}


def standard_queue(queue: MessageQueue) -> v2.MessageQueue:
    """A queue as the standard protocol names it."""
    topic, broker_name, queue_id = queue
    return v2.MessageQueue(topic=v2.Resource(name=topic), id=queue_id, broker=v2.Broker(name=broker_name))


def _queue(queue: MessageQueue) -> v1.Queue:
    return v1.Queue(topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id)


def _topic_bounds(entry: v1.TopicBounds) -> TopicBounds:
    queues = {
        MessageQueue(entry.topic, queue.broker_name, queue.queue_id): Bounds(queue.min_offset, queue.max_offset)
        for queue in entry.queues
    }
    rows_lost = {
        MessageQueue(entry.topic, queue.broker_name, queue.queue_id): queue.rows_lost
        for queue in entry.queues
        if queue.rows_lost
    }
    return TopicBounds(entry.creation_id, queues, rows_lost)


def lost_queue(entry: QueueRange) -> Loss:
    """The loss of all that was left of a range."""
    queue, from_offset, until_offset = entry
    text = (
        f"Queue {queue} is gone, or its topic was created again; "
        f"offsets [{from_offset}, {until_offset}) were still to be read."
    )
    return Loss(queue, from_offset, until_offset, text)


def log_reset(group: str, queue: MessageQueue, offset: int) -> None:
    """A reset of the group is told once, and moves no query: where that reads, its checkpoint says."""
    _logger.warning("Group %s was reset to offset %d of queue %s; the query goes on where it is", group, offset, queue)


def _is_reset(result: v1.QueuePulled) -> bool:
    return result.pull_status == v1.PullStatus.OFFSET_RESET


def _pull_request(
    group: str,
    ranges: Sequence[QueueRange],
    columns: Sequence[str],
    creation_ids: Mapping[str, str],
    message_filter: MessageFilter,
) -> v1.PullColumnsRequest:
    queues = [
        v1.QueuePull(
            queue=_queue(queue),
            offset=from_offset,
            until_offset=until_offset,
            creation_id=creation_ids.get(queue.topic),
        )
        for queue, from_offset, until_offset in ranges
    ]
    return v1.PullColumnsRequest(
        group=group,
        queues=queues,
        filter_expression=expression_of(message_filter),
        columns=columns,
        max_rows=PULL_ROWS_MAX,
        max_bytes=PULL_BYTES_MAX,
    )


def _next_offset(group: str, entry: QueueRange, result: v1.QueuePulled, is_filtered: bool, on_loss: OnLoss) -> int:
    """Where to go on in a range after what one pull found of it."""
    queue, from_offset, until_offset = entry
    if _is_reset(result):
        log_reset(group, queue, result.next_offset)
        return from_offset
    if result.pull_status == v1.PullStatus.NO_MATCHED_LOGIC_QUEUE:
        on_loss(lost_queue(entry))
        return until_offset
    is_complete = result.pull_status in _COMPLETE
    bounds = Bounds(result.min_offset, result.max_offset)
    if not is_complete and (loss := _outside(entry, bounds)) is not None:
        on_loss(loss)
        return loss.until_offset
    missing = result.next_offset - from_offset - result.row_count
    # Messages that a filter drops are passed over by a pull that is complete; elsewhere they are gone.
    if missing > 0 and not (is_filtered and is_complete):
        text = f"{missing} messages of queue {queue} in [{from_offset}, {result.next_offset}) are gone."
        on_loss(Loss(queue, result.next_offset - missing, result.next_offset, text))
    return result.next_offset


def _outside(entry: QueueRange, bounds: Bounds) -> Loss | None:
    """The part of a range that is not there: its offsets existed when the batch was planned."""
    queue, from_offset, until_offset = entry
    if from_offset < bounds.min_offset:
        loss = outside(queue, from_offset, bounds)
        return loss and loss._replace(until_offset=min(bounds.min_offset, until_offset))
    loss = outside(queue, until_offset, bounds)
    return loss and loss._replace(from_offset=max(from_offset, bounds.max_offset))


def _rows(asked: Sequence[QueueRange], answer: v1.PullColumnsResponse) -> list[QueueRows]:
    """The rows of an answer by queue: the stream has them in the order of the queues."""
    batches = wire.read_stream(answer.arrow_ipc)
    if not batches:
        return []
    table = pa.Table.from_batches(batches)
    rows, place = [], 0
    for entry, result in zip(asked, answer.queues, strict=True):
        if result.row_count:
            rows.append(QueueRows(entry.queue, table.slice(place, result.row_count).to_batches()))
            place += result.row_count
    return rows
