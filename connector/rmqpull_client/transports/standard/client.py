"""The client for servers that have ``apache.rocketmq.v2`` alone: one queue and a few messages per call. Slower."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import pyarrow as pa

from rmqpull_client.errors import RequestRefused, RmqpullError
from rmqpull_client.flow import MIB, Flow, FlowLimits
from rmqpull_client.loss import Loss, OnLoss, refuse_loss
from rmqpull_client.model import (
    EVERYTHING,
    Bounds,
    MessageFilter,
    MessageQueue,
    Part,
    QueueRange,
    RangeToCut,
    TopicBounds,
)
from rmqpull_client.transports.grpc.calls import (
    encode_queue,
    find_offsets_at,
    get_consumer_offsets,
    list_topics,
    make_no_sizes_error,
    refuse_filter,
    start_get_consumer_offsets,
)
from rmqpull_client.transports.grpc.channel import BrokerChannel
from rmqpull_client.transports.grpc.retry import Cancellation
from rmqpull_client.transports.port import NO_CREATION_IDS, QueueRows, log_reset
from rmqpull_client.transports.reading_ahead import ReadAhead
from rmqpull_client.transports.standard.lane import (
    PULL,
    QueueLane,
    find_status,
    is_of_missing_queue,
    pull_request,
    refuse_pull,
)
from rmqpull_client.transports.standard.rows import make_batch
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc
from rmqpull_proto.rpc import MESSAGING

PULL_BYTES = 256 << 10
"""What a pull is expected to bring at most, unless one message is larger: maxTransferBytesOnMessageInMemory."""
LINGER_S = 0.05
"""How long a batch that is not full waits for more: a pull brings few messages, and Spark takes many at once."""
WAITING_QUEUES_MAX = 16
"""Queues on which an idle query parks a pull; news on one beyond is seen when the wait is over."""


class StandardClient:
    """See :class:`rmqpull_client.transports.port.BrokerClient`."""

    def __init__(self, channel: BrokerChannel, flow: Flow) -> None:
        self._channel = channel
        self._flow = flow

    @property
    def endpoints(self) -> str:
        """Where the broker is."""
        return self._channel.endpoints

    def query_bounds(self, topics: Sequence[str], query_id: str | None = None) -> dict[str, TopicBounds]:
        """The queues of each topic by its route, and two offsets of each queue."""
        found = {}
        for topic in topics:
            try:
                found[topic] = TopicBounds(None, self._bounds_of(topic))
            except RequestRefused as refusal:
                if refusal.code != "TOPIC_NOT_FOUND":
                    raise
        return found

    def _bounds_of(self, topic: str) -> dict[MessageQueue, Bounds]:
        request = rpc.QueryRouteRequest(topic=v2.Resource(name=topic))
        route = self._channel.call(MESSAGING.methods["QueryRoute"], request)
        queues = [
            MessageQueue(topic, queue.broker.name, queue.id)
            for queue in route.message_queues
            # Only masters, whose id is 0, and only what may be read (rules 5.8).
            if queue.broker.id == 0 and queue.permission in (v2.Permission.READ, v2.Permission.READ_WRITE)
        ]
        lows = self._query_offsets(queues, v2.QueryOffsetPolicy.BEGINNING)
        highs = self._query_offsets(queues, v2.QueryOffsetPolicy.END)
        return {queue: Bounds(low, high) for queue, low, high in zip(queues, lows, highs, strict=True)}

    def _query_offsets(self, queues: Sequence[MessageQueue], policy: v2.QueryOffsetPolicy) -> list[int]:
        method = MESSAGING.methods["QueryOffset"]
        requests = [
            rpc.QueryOffsetRequest(message_queue=encode_queue(queue), query_offset_policy=policy) for queue in queues
        ]
        answers = [self._channel.start(method, request) for request in requests]
        return [answer().offset for answer in answers]

    def cut_ranges(self, wanted: Sequence[RangeToCut]) -> list[list[Part]]:
        """The standard protocol tells no sizes: raises OptionError."""
        raise make_no_sizes_error(self.endpoints)

    def report_lost(self, query_id: str, losses: Sequence[Loss]) -> None:
        """The standard protocol has no such call: what is lost stands in the log alone."""

    def list_topics(self) -> list[str]:
        """All topics, where the server has the admin service though not columns."""
        return list_topics(self._channel)

    def check_filter(self, group: str, queue: MessageQueue, offset: int, message_filter: MessageFilter) -> None:
        """A pull of one message, for less cannot be asked for."""
        parts = self._pull_one(group, queue, offset, message_filter)
        _tell_reset(group, queue, parts)
        try:
            refuse_pull(self.endpoints, find_status(parts))
        except RequestRefused as refusal:
            refuse_filter(message_filter, refusal)
            raise

    def wait_for_messages(
        self,
        group: str,
        offsets: Mapping[MessageQueue, int],
        timeout_ms: int,
        message_filter: MessageFilter = EVERYTHING,
    ) -> bool:
        """One parked pull per queue, whichever answers first; the standard protocol has no pull over many queues."""
        waited = list(offsets.items())[:WAITING_QUEUES_MAX]
        cancellations = [Cancellation() for _ in waited]
        pulls = [
            self._channel.start_stream(
                PULL, pull_request(group, queue, offset, 1, message_filter, timeout_ms), cancellation, timeout_ms
            )
            for (queue, offset), cancellation in zip(waited, cancellations, strict=True)
        ]
        with ThreadPoolExecutor(max_workers=len(pulls), thread_name_prefix="rmqpull-wait") as threads:
            answers = [
                threads.submit(self._has_news, group, queue, pull)
                for (queue, _), pull in zip(waited, pulls, strict=True)
            ]
            try:
                done, _ = wait(answers, return_when=FIRST_COMPLETED)
                return any(answer.result() for answer in done)
            finally:
                for cancellation in cancellations:
                    cancellation.cancel()

    def _has_news(self, group: str, queue: MessageQueue, pull: Callable[[], list[rpc.PullMessageResponse]]) -> bool:
        """Whether a parked pull is answered with anything but that its time is over."""
        try:
            parts = pull()
        except RequestRefused as refusal:
            if refusal.code != "TOO_MANY_REQUESTS":  # so many wait already; that is no reason to end a query
                raise
            return True
        _tell_reset(group, queue, parts)
        status = find_status(parts)
        if not is_of_missing_queue(status):  # planning finds out what became of it
            refuse_pull(self.endpoints, status)
        return status.code != v2.Code.MESSAGE_NOT_FOUND

    def read(
        self,
        group: str,
        ranges: Sequence[QueueRange],
        columns: Sequence[str],
        creation_ids: Mapping[str, str] = NO_CREATION_IDS,
        message_filter: MessageFilter = EVERYTHING,
        on_loss: OnLoss = refuse_loss,
    ) -> Iterator[Sequence[QueueRows]]:
        """Pulls queues side by side and ahead of Spark, each by as many messages as ``pullBatchSize``."""
        flow = self._flow
        limits = FlowLimits(
            flow.pull_threshold_size_for_topic * MIB,
            PULL_BYTES,
            flow.pull_threshold_for_queue,
            flow.pull_threshold_size_for_queue * MIB,
        )
        lanes = [
            QueueLane(self._channel, group, entry, flow.pull_batch_size, message_filter)
            for entry in ranges
            if entry.from_offset < entry.until_offset
        ]
        for pieces in ReadAhead(lanes, limits, LINGER_S):
            gathered: dict[MessageQueue, list[v2.Message]] = {}
            for piece in pieces:
                for loss in piece.losses:
                    on_loss(loss)
                queue, messages = piece.rows
                gathered.setdefault(queue, []).extend(messages)
            if rows := [
                QueueRows(queue, [make_batch(messages, columns)]) for queue, messages in gathered.items() if messages
            ]:
                yield rows

    def _pull_one(
        self, group: str, queue: MessageQueue, offset: int, message_filter: MessageFilter
    ) -> list[rpc.PullMessageResponse]:
        request = pull_request(group, queue, offset, 1, message_filter)
        return self._channel.start_stream(PULL, request)()

    def set_consumer_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Sets the group's offsets, one call for each queue; calls that ask for the previous ones go along."""
        try:
            return self._update_offsets(group, offsets)
        except RequestRefused as refusal:
            if refusal.code != "CONSUMER_GROUP_NOT_FOUND":
                raise
            # Only a pull makes a group (rules 6.1), and a query that found nothing has not pulled.
            queue, offset = next(iter(offsets.items()))
            self._pull_one(group, queue, offset, EVERYTHING)
            return self._update_offsets(group, offsets)

    def _update_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        previous = start_get_consumer_offsets(self._channel, group, list(offsets))
        method = MESSAGING.methods["UpdateOffset"]
        requests = [
            rpc.UpdateOffsetRequest(group=v2.Resource(name=group), message_queue=encode_queue(queue), offset=offset)
            for queue, offset in offsets.items()
        ]
        answers = [self._channel.start(method, request) for request in requests]
        for answer in answers:
            answer()
        try:
            return {queue: offset for queue, offset in previous().items() if offset is not None}
        except RmqpullError:  # the offsets are set all the same
            return {}

    def get_consumer_offsets(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The group's offsets; None where the broker has none."""
        return get_consumer_offsets(self._channel, group, queues)

    def find_offsets_at(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """The first offset of each queue that was stored then or later."""
        return find_offsets_at(self._channel, timestamps_ms)

    def publish(self, topic: str, batch: pa.RecordBatch) -> None:
        """The standard protocol has no batch in columns: raises RequestRefused."""
        raise RequestRefused(
            "UNSUPPORTED", f"The server at {self._channel.endpoints} does not take batches in columns; send to another."
        )

    def close(self) -> None:
        """Lets the connection of this process go."""
        self._channel.close()


def _tell_reset(group: str, queue: MessageQueue, parts: Sequence[rpc.PullMessageResponse]) -> None:
    """Logs the reset that a pull was answered with, which is asked for no more."""
    if any(part.status.message == "OFFSET_RESET" for part in parts):
        for part in parts:
            if part.WhichOneof("content") == "next_offset":
                log_reset(group, queue, part.next_offset)
