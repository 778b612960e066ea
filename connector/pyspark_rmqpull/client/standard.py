"""The client for servers that have ``apache.rocketmq.v2`` alone: one queue and a few messages per call. Slower."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import grpc
import pyarrow as pa

from pyspark_rmqpull.client.channel import BrokerChannel, Stream, refuse
from pyspark_rmqpull.client.columnar import (
    committed_offsets,
    listed_topics,
    log_reset,
    lost_queue,
    offsets_at_times,
    standard_queue,
)
from pyspark_rmqpull.client.cutting import without_sizes
from pyspark_rmqpull.client.filtering import expression_of, refuse_filter
from pyspark_rmqpull.client.port import NO_CREATION_IDS, QueueRows
from pyspark_rmqpull.client.standard_rows import rows_to_batch
from pyspark_rmqpull.cutting import Part, RangeToCut
from pyspark_rmqpull.errors import BrokerUnavailable, RequestRefused
from pyspark_rmqpull.filters import EVERYTHING, MessageFilter
from pyspark_rmqpull.flow import Flow
from pyspark_rmqpull.loss import Loss, OnLoss
from pyspark_rmqpull.loss import refuse as refuse_loss
from pyspark_rmqpull.model import Bounds, MessageQueue, QueueRange, TopicBounds
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc
from rmqpull_proto.rpc import MESSAGING

BATCH_ROWS = 10_000
BATCH_BYTES = 4 << 20
PULLS_IN_FLIGHT = 8
"""Queues that a task pulls at the same time; each has at most ``pullBatchSize`` messages under way."""
WAITING_QUEUES_MAX = 16
"""Queues on which an idle query parks a pull; news on one beyond is seen when the wait is over."""

_PULL = MESSAGING.methods["PullMessage"]


class StandardClient:
    """See :class:`pyspark_rmqpull.client.port.BrokerClient`."""

    def __init__(self, channel: BrokerChannel, flow: Flow) -> None:
        self._channel = channel
        self._flow = flow

    @property
    def endpoints(self) -> str:
        """Where the broker is."""
        return self._channel.endpoints

    def bounds(self, topics: Sequence[str], query_id: str | None = None) -> dict[str, TopicBounds]:
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
            # Only masters, whose id is 0, and only what may be read (rocketmq-semantics 5.8).
            if queue.broker.id == 0 and queue.permission in (v2.Permission.READ, v2.Permission.READ_WRITE)
        ]
        lows = self._query_offsets(queues, v2.QueryOffsetPolicy.BEGINNING)
        highs = self._query_offsets(queues, v2.QueryOffsetPolicy.END)
        return {queue: Bounds(low, high) for queue, low, high in zip(queues, lows, highs, strict=True)}

    def _query_offsets(self, queues: Sequence[MessageQueue], policy: v2.QueryOffsetPolicy) -> list[int]:
        method = MESSAGING.methods["QueryOffset"]
        requests = [
            rpc.QueryOffsetRequest(message_queue=standard_queue(queue), query_offset_policy=policy) for queue in queues
        ]
        answers = [self._channel.start(method, request) for request in requests]
        return [answer().offset for answer in answers]

    def cut_ranges(self, wanted: Sequence[RangeToCut]) -> list[list[Part]]:
        """The standard protocol tells no sizes: raises OptionError."""
        raise without_sizes(self.endpoints)

    def report_lost(self, query_id: str, losses: Sequence[Loss]) -> None:
        """The standard protocol has no such call: what is lost stands in the log alone."""

    def topic_names(self) -> list[str]:
        """All topics, where the server has the admin service though not columns."""
        return listed_topics(self._channel)

    def check_filter(self, group: str, queue: MessageQueue, offset: int, message_filter: MessageFilter) -> None:
        """A pull of one message, for less cannot be asked for."""
        parts = self.start_pull(group, queue, offset, 1, message_filter)()
        _tell_reset(group, queue, parts)
        for part in parts:
            if part.status.code not in (v2.Code.MESSAGE_NOT_FOUND, v2.Code.ILLEGAL_OFFSET, v2.Code.CODE_UNSPECIFIED):
                try:
                    self.refuse_status(part.status)
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
        requests = [self._pull_request(group, queue, offset, 1, message_filter, timeout_ms) for queue, offset in waited]
        streams = [self._channel.stream(_PULL, request, timeout_ms) for request in requests]
        with ThreadPoolExecutor(max_workers=len(streams), thread_name_prefix="rmqpull-wait") as threads:
            answers = [
                threads.submit(_has_news, group, queue, stream)
                for (queue, _), stream in zip(waited, streams, strict=True)
            ]
            done, _ = wait(answers, return_when=FIRST_COMPLETED)
            has_news = any(answer.result() for answer in done)
            for stream in streams:
                stream.cancel()
        return has_news

    def _pull_request(
        self,
        group: str,
        queue: MessageQueue,
        offset: int,
        batch_size: int,
        message_filter: MessageFilter,
        long_polling_timeout_ms: int = 0,
    ) -> rpc.PullMessageRequest:
        request = rpc.PullMessageRequest(
            group=v2.Resource(name=group),
            message_queue=standard_queue(queue),
            offset=offset,
            batch_size=batch_size,
            filter_expression=expression_of(message_filter),
        )
        request.long_polling_timeout.FromMilliseconds(long_polling_timeout_ms)
        return request

    def read(
        self,
        group: str,
        ranges: Sequence[QueueRange],
        columns: Sequence[str],
        creation_ids: Mapping[str, str] = NO_CREATION_IDS,
        message_filter: MessageFilter = EVERYTHING,
        on_loss: OnLoss = refuse_loss,
    ) -> Iterator[Sequence[QueueRows]]:
        """Pulls up to eight queues at a time, each by as many messages as ``pullBatchSize``."""
        waiting = deque(entry for entry in ranges if entry.from_offset < entry.until_offset)
        pulls: deque[_QueuePull] = deque()
        gathered: dict[MessageQueue, list[v2.Message]] = {}
        row_count = byte_count = 0
        while waiting or pulls:
            while waiting and len(pulls) < PULLS_IN_FLIGHT:
                pulls.append(_QueuePull(self, group, waiting.popleft(), message_filter, on_loss))
            pull = pulls.popleft()
            messages = pull.take()
            if pull.is_under_way:
                pulls.append(pull)
            gathered.setdefault(pull.queue, []).extend(messages)
            row_count += len(messages)
            byte_count += sum(len(message.body) for message in messages)
            if row_count >= BATCH_ROWS or byte_count >= BATCH_BYTES:
                yield _columns_of(gathered, columns)
                gathered, row_count, byte_count = {}, 0, 0
        if row_count:
            yield _columns_of(gathered, columns)

    def start_pull(
        self, group: str, queue: MessageQueue, offset: int, count: int, message_filter: MessageFilter = EVERYTHING
    ) -> Callable[[], list[rpc.PullMessageResponse]]:
        """Begins one pull of at most ``count`` messages; what it returns waits for the answer."""
        request = self._pull_request(group, queue, offset, min(count, self._flow.pull_batch_size), message_filter)
        return self._channel.start_stream(_PULL, request)

    def refuse_status(self, status: v2.Status) -> None:
        """Raises RequestRefused for the status of a pull that is no answer."""
        refuse(self._channel.endpoints, _PULL, status)

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Sets the group's offsets, one call for each queue."""
        try:
            self._update_offsets(group, offsets)
        except RequestRefused as refusal:
            if refusal.code != "CONSUMER_GROUP_NOT_FOUND":
                raise
            # Only a pull makes a group (rocketmq-semantics 6.1), and a query that found nothing has not pulled.
            queue, offset = next(iter(offsets.items()))
            self.start_pull(group, queue, offset, 1)()
            self._update_offsets(group, offsets)

    def _update_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        method = MESSAGING.methods["UpdateOffset"]
        requests = [
            rpc.UpdateOffsetRequest(group=v2.Resource(name=group), message_queue=standard_queue(queue), offset=offset)
            for queue, offset in offsets.items()
        ]
        answers = [self._channel.start(method, request) for request in requests]
        for answer in answers:
            answer()

    def committed(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The group's offsets; None where the broker has none."""
        return committed_offsets(self._channel, group, queues)

    def offsets_at(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """The first offset of each queue that was stored then or later."""
        return offsets_at_times(self._channel, timestamps_ms)

    def publish(self, topic: str, batch: pa.RecordBatch) -> None:
        """The standard protocol has no batch in columns: raises RequestRefused."""
        raise RequestRefused(
            "UNSUPPORTED", f"The server at {self._channel.endpoints} does not take batches in columns; send to another."
        )

    def close(self) -> None:
        """Lets the connection of this process go."""
        self._channel.close()


class _QueuePull:
    """Pulls one queue's range, one pull under way at a time."""

    def __init__(
        self,
        client: StandardClient,
        group: str,
        entry: QueueRange,
        message_filter: MessageFilter,
        on_loss: OnLoss,
    ) -> None:
        self.queue, self._offset, self._until_offset = entry
        self._client = client
        self._group = group
        self._filter = message_filter
        self._on_loss = on_loss
        self._begin()

    @property
    def is_under_way(self) -> bool:
        """Whether there is more to take."""
        return self._offset < self._until_offset

    def _begin(self) -> None:
        count = self._until_offset - self._offset
        self._answer = self._client.start_pull(self._group, self.queue, self._offset, count, self._filter)

    def take(self) -> list[v2.Message]:
        """The messages of the pull under way; begins the next one. Raises DataLoss when the range is gone."""
        answer = self._answer()
        messages = [part.message for part in answer if part.WhichOneof("content") == "message"]
        self._advance(answer, [message.system_properties.queue_offset for message in messages])
        if self.is_under_way:
            self._begin()
        return [message for message in messages if self._is_wanted(message.system_properties)]

    def _is_wanted(self, system: v2.SystemProperties) -> bool:
        tags = self._filter.tags
        return system.queue_offset < self._until_offset and (not tags or system.tag in tags)

    def _advance(self, answer: Sequence[rpc.PullMessageResponse], offsets: Sequence[int]) -> None:
        status = next((part.status for part in answer if part.WhichOneof("content") == "status"), v2.Status())
        next_offset = next((part.next_offset for part in answer if part.WhichOneof("content") == "next_offset"), None)
        if _is_of_missing_queue(status):
            self._on_loss(lost_queue(QueueRange(self.queue, self._offset, self._until_offset)))
            self._offset = self._until_offset
            return
        if status.code not in (v2.Code.ILLEGAL_OFFSET, v2.Code.MESSAGE_NOT_FOUND):
            self._client.refuse_status(status)
        if next_offset is None:
            raise BrokerUnavailable(f"A pull from queue {self.queue} at offset {self._offset} ended without its end.")
        if status.code == v2.Code.ILLEGAL_OFFSET and status.message == "OFFSET_RESET":
            log_reset(self._group, self.queue, next_offset)
            return
        if not self._is_complete(status, offsets, next_offset):
            next_offset = self._behind_loss(offsets, next_offset, status.message)
        self._offset = next_offset

    def _behind_loss(self, offsets: Sequence[int], next_offset: int, status: str) -> int:
        """Tells what an incomplete pull shows to be gone, and where to go on: at the end if it goes no further."""
        text = (
            f"Messages of queue {self.queue} in [{self._offset}, {self._until_offset}) are gone: a pull at "
            f"{self._offset} gave {len(offsets)} messages, goes on at {next_offset}, and says {status!r}."
        )
        resumed = min(next_offset if next_offset > self._offset else self._until_offset, self._until_offset)
        missing = resumed - self._offset - sum(self._offset <= offset < resumed for offset in offsets)
        self._on_loss(Loss(self.queue, resumed - missing, resumed, text))
        return resumed

    def _is_complete(self, status: v2.Status, offsets: Sequence[int], next_offset: int) -> bool:
        """Whether the pull met every message up to the next one. All of them were there when the batch was planned."""
        if self._filter.keeps_everything:
            return bool(offsets) and list(offsets) == list(range(self._offset, next_offset))
        if status.code == v2.Code.OK:
            return bool(offsets) and self._offset <= min(offsets) and max(offsets) < next_offset
        return status.message == "NO_MATCHED_MESSAGE" and next_offset > self._offset


def _is_of_missing_queue(status: v2.Status) -> bool:
    """Whether a pull was refused since its topic or its queue does not exist (rocketmq-semantics 3.1, rows 6 and 8)."""
    is_beyond = status.code == v2.Code.BAD_REQUEST and status.message.startswith("queueId[")
    return is_beyond or status.code == v2.Code.TOPIC_NOT_FOUND


def _has_news(group: str, queue: MessageQueue, stream: Stream) -> bool:
    """Whether a parked pull was answered with anything but that its time is over."""
    try:
        parts = list(stream)
        _tell_reset(group, queue, parts)
        return not any(part.status.code == v2.Code.MESSAGE_NOT_FOUND for part in parts)
    except grpc.RpcError:
        # Whatever ended the wait, planning looks at the broker next and reports what is wrong with it.
        return True


def _tell_reset(group: str, queue: MessageQueue, parts: Sequence[rpc.PullMessageResponse]) -> None:
    """Logs the reset that a pull was answered with, which is asked for no more."""
    if any(part.status.message == "OFFSET_RESET" for part in parts):
        for part in parts:
            if part.WhichOneof("content") == "next_offset":
                log_reset(group, queue, part.next_offset)


def _columns_of(gathered: Mapping[MessageQueue, list[v2.Message]], columns: Sequence[str]) -> list[QueueRows]:
    return [QueueRows(queue, [rows_to_batch(messages, columns)]) for queue, messages in gathered.items() if messages]
