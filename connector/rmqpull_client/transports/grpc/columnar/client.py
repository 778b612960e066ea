"""The client for servers with ``rmqpull.v1``: whole batches in columns (rules 9.1), and many queues per call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from rmqpull_client.errors import BrokerBusy, FilterRefused, OptionError
from rmqpull_client.flow import DEFAULT_FLOW, MIB, Flow, FlowLimits
from rmqpull_client.loss import Loss, OnLoss, refuse_loss
from rmqpull_client.model import (
    EVERYTHING,
    Bounds,
    GroupProgress,
    MessageFilter,
    MessageQueue,
    Part,
    QueueRange,
    RangeToCut,
    ResetTarget,
    TopicBounds,
)
from rmqpull_client.transports.grpc import calls
from rmqpull_client.transports.grpc.channel import BrokerChannel
from rmqpull_client.transports.grpc.columnar.lane import (
    PULL_BYTES,
    ColumnarLane,
    encode_queue,
    is_reset,
    make_lanes,
    make_pull_request,
)
from rmqpull_client.transports.grpc.columnar.looking import look_at
from rmqpull_client.transports.grpc.reading_ahead import ReadAhead
from rmqpull_client.transports.message_filters import make_filter_error
from rmqpull_client.transports.port import NO_CREATION_IDS, ClientAbilities, QueueRows, log_reset
from rmqpull_client.transports.tools_port import BrokerReset, IndexedMessages
from rmqpull_client.witness import BYTES_MAX, Witness
from rmqpull_proto import columns as wire
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.names import TOOLS_GROUP
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rpc import COLUMNS


class ColumnarClient:
    """See :class:`rmqpull_client.transports.port.BrokerClient`."""

    def __init__(self, channel: BrokerChannel, flow: Flow = DEFAULT_FLOW) -> None:
        self._channel = channel
        self._flow = flow
        self._abilities: ClientAbilities | None = None

    def list_extensions(self) -> Sequence[str]:
        """Lists the extensions of the server. Raises Unserved if it has none."""
        response = self._channel.call(COLUMNS.methods["DescribeServer"], v1.DescribeServerRequest())
        return list(response.extensions)

    @property
    def endpoints(self) -> str:
        """The endpoints of the connection."""
        return self._channel.endpoints

    @property
    def abilities(self) -> ClientAbilities:
        """What the server can do. It is asked with a call that cuts nothing, because servers do not list their calls.

        An older server with columns cannot cut ranges.
        """
        if self._abilities is None:
            try:
                calls.cut_ranges(self._channel, ())
                self._abilities = ClientAbilities(no_sizes=None)
            except OptionError as error:
                self._abilities = ClientAbilities(no_sizes=str(error))
        return self._abilities

    def query_bounds(self, topics: Sequence[str], query_id: str | None = None) -> dict[str, TopicBounds]:
        """Queries all topics with one call."""
        request = v1.QueryBoundsRequest(
            topics=[v1.TopicBoundsRequest(topic=topic) for topic in topics], query_id=query_id or ""
        )
        response = self._channel.call(COLUMNS.methods["QueryBounds"], request)
        self._channel.note_instance(response.instance_id)
        return {entry.topic: _decode_bounds(entry) for entry in response.topics if entry.status.code == v2.Code.OK}

    def cut_ranges(self, wanted: Sequence[RangeToCut]) -> list[list[Part]]:
        """Cuts all ranges. One call returns about a thousand parts."""
        return calls.cut_ranges(self._channel, wanted)

    def report_lost(self, query_id: str, losses: Sequence[Loss]) -> None:
        """Reports all losses with one call."""
        ranges = [
            v1.LostRange(queue=encode_queue(loss.queue), from_offset=loss.from_offset, until_offset=loss.until_offset)
            for loss in losses
        ]
        request = v1.ReportRowsLostRequest(query_id=query_id, ranges=ranges)
        self._channel.call(COLUMNS.methods["ReportRowsLost"], request)

    def list_topics(self) -> list[str]:
        """Lists all topics with one call."""
        return calls.list_topics(self._channel)

    def list_groups(self) -> list[str]:
        """Lists all groups with one call."""
        return calls.list_groups(self._channel)

    def query_progress(self, groups: Sequence[str]) -> list[GroupProgress]:
        """Asks which of the groups there are, and for all of these with one call."""
        return calls.query_progress(self._channel, groups)

    def check_filter(self, group: str, queue: MessageQueue, offset: int, message_filter: MessageFilter) -> None:
        """Pulls an empty range."""
        request = make_pull_request(group, [QueueRange(queue, offset, offset)], ["queueOffset"], {}, message_filter)
        try:
            response = self._channel.call(COLUMNS.methods["PullColumns"], request)
        except FilterRefused as refusal:
            raise make_filter_error(message_filter, refusal) from None
        for result in filter(is_reset, response.queues):
            log_reset(group, queue, result.next_offset)

    def wait_for_messages(
        self,
        group: str,
        offsets: Mapping[MessageQueue, int],
        timeout_ms: int,
        message_filter: MessageFilter = EVERYTHING,
    ) -> bool:
        """Parks one pull of all queues."""
        request = v1.PullColumnsRequest(
            group=group,
            queues=[v1.QueuePull(queue=encode_queue(queue), offset=offset) for queue, offset in offsets.items()],
            filter_expression=calls.encode_filter(message_filter),
            columns=["queueOffset"],
            max_rows=1,
            long_polling_timeout_ms=timeout_ms,
        )
        try:
            response = self._channel.call(COLUMNS.methods["PullColumns"], request, extra_ms=timeout_ms)
        except BrokerBusy:
            return True  # too many parked pulls must not end a query
        for queue, result in zip(offsets, response.queues, strict=True):
            if is_reset(result):
                log_reset(group, queue, result.next_offset)
        return any(
            is_reset(result) or result.next_offset != offset
            for offset, result in zip(offsets.values(), response.queues, strict=True)
        )

    def read(
        self,
        group: str,
        ranges: Sequence[QueueRange],
        columns: Sequence[str],
        creation_ids: Mapping[str, str] = NO_CREATION_IDS,
        message_filter: MessageFilter = EVERYTHING,
        on_loss: OnLoss = refuse_loss,
    ) -> Iterator[Sequence[QueueRows]]:
        """Pulls several queues at once. Each response fills about two batches."""
        size_max = self._flow.pull_threshold_size_for_topic * MIB
        bytes_max = min(PULL_BYTES, size_max)
        lanes = [
            ColumnarLane(self._channel, group, lane, columns, creation_ids, message_filter, bytes_max)
            for lane in make_lanes(ranges)
        ]
        for pieces in ReadAhead(lanes, FlowLimits(size_max, bytes_max)):
            for piece in pieces:
                for loss in piece.losses:
                    on_loss(loss)
            if rows := [entry for piece in pieces for entry in piece.rows]:
                yield rows

    def look_at(
        self, group: str, offsets: Mapping[MessageQueue, int], byte_max: int = BYTES_MAX
    ) -> dict[MessageQueue, Witness | None]:
        """Pulls one message of each queue with one call."""
        return look_at(self._channel, group, offsets, byte_max)

    def query_messages(
        self, queues: Sequence[MessageQueue], key: str | None, msg_id: str | None, begin_ms: int = 0
    ) -> IndexedMessages:
        """Raises Unserved."""
        return calls.refuse_look_ups(self._channel)

    @property
    def lost_connections(self) -> int | None:
        """Counts the server runs that have returned bounds. None: an older server does not identify its runs."""
        return self._channel.instances_seen

    def check_group(self, group: str, queues: Sequence[MessageQueue]) -> None:
        """Does nothing: over gRPC, a client that pulls is a member like others."""

    def prepare_reset(self, group: str, queues: Sequence[MessageQueue], target: ResetTarget) -> BrokerReset | None:
        """Asks the admin service for members. It resets all queues of a topic with one call, or each queue."""
        return calls.prepare_reset(self._channel, group, queues, target)

    def set_consumer_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Sets all offsets or none with one call, which also returns the previous ones."""
        entries = [v1.QueueOffset(queue=encode_queue(queue), offset=offset) for queue, offset in offsets.items()]
        request = v1.CommitOffsetsRequest(group=group, offsets=entries)
        previous = self._channel.call(COLUMNS.methods["CommitOffsets"], request).previous_offsets
        # An older server does not return previous offsets.
        return {queue: offset for queue, offset in zip(offsets, previous, strict=False) if offset >= 0}

    def get_consumer_offsets(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Gets the offsets with one call per queue."""
        return calls.get_consumer_offsets(self._channel, group, queues)

    def find_offsets_at(
        self, timestamps_ms: Mapping[MessageQueue, int], group: str = TOOLS_GROUP
    ) -> dict[MessageQueue, int]:
        """Finds the offsets with one call per queue."""
        return calls.find_offsets_at(self._channel, timestamps_ms)

    def publish(self, topic: str, batch: pa.RecordBatch) -> None:
        """Sends the batch with one call. The broker stores all of it or nothing."""
        request = v1.PublishColumnsRequest(topic=topic, arrow_ipc=wire.write_stream(batch.schema, [batch]))
        self._channel.call(COLUMNS.methods["PublishColumns"], request)

    def close(self) -> None:
        """Closes this process's connection."""
        self._channel.close()


def _decode_bounds(entry: v1.TopicBounds) -> TopicBounds:
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
