"""The client for servers that have only ``apache.rocketmq.v2``: one queue and a few messages per call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import pyarrow as pa

from rmqpull_client.errors import (
    BrokerBusy,
    FilterRefused,
    GroupNotFound,
    OptionError,
    QueueNotFound,
    RequestRefused,
    RmqpullError,
    TopicNotFound,
)
from rmqpull_client.flow import MIB, QUEUE_MESSAGES_OVER_GRPC, Flow, FlowLimits
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
from rmqpull_client.transports.grpc.reading_ahead import ReadAhead
from rmqpull_client.transports.grpc.retry import Cancellation
from rmqpull_client.transports.grpc.standard.lane import (
    PULL,
    PullOutcome,
    QueueLane,
    make_pull_request,
    parse_pull_response,
)
from rmqpull_client.transports.grpc.standard.looking import look_at
from rmqpull_client.transports.grpc.standard.rows import make_batch
from rmqpull_client.transports.message_filters import make_filter_error
from rmqpull_client.transports.port import NO_CREATION_IDS, ClientAbilities, QueueRows, log_reset
from rmqpull_client.transports.tools_port import BrokerReset, IndexedMessages
from rmqpull_client.witness import BYTES_MAX, Witness
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc
from rmqpull_proto.names import TOOLS_GROUP
from rmqpull_proto.rpc import MESSAGING

PULL_BYTES = 256 << 10
"""The assumed size of a response, unless one message is larger: RocketMQ's maxTransferBytesOnMessageInMemory."""
LINGER_S = 0.05
"""How long a batch that is not full waits for more messages. A pull brings few, and a consumer takes many at once."""
WAITING_QUEUES_MAX = 16
"""The queues on which a wait parks pulls. Messages in other queues are noticed when the wait is over."""


class StandardClient:
    """See :class:`rmqpull_client.transports.port.BrokerClient`."""

    def __init__(self, channel: BrokerChannel, flow: Flow) -> None:
        self._channel = channel
        self._flow = flow

    @property
    def endpoints(self) -> str:
        """The endpoints of the connection."""
        return self._channel.endpoints

    @property
    def abilities(self) -> ClientAbilities:
        """What the standard protocol can do: it does not report message sizes. No server is asked."""
        return ClientAbilities(no_sizes=calls.explain_no_sizes(self.endpoints))

    def query_bounds(self, topics: Sequence[str], query_id: str | None = None) -> dict[str, TopicBounds]:
        """Queries the route of each topic, and then the min and the max offset of each queue."""
        found = {}
        for topic in topics:
            try:
                found[topic] = TopicBounds(None, self._query_topic(topic))
            except TopicNotFound:
                continue
        return found

    def _query_topic(self, topic: str) -> dict[MessageQueue, Bounds]:
        request = rpc.QueryRouteRequest(topic=v2.Resource(name=topic))
        route = self._channel.call(MESSAGING.methods["QueryRoute"], request)
        queues = [
            MessageQueue(topic, queue.broker.name, queue.id)
            for queue in route.message_queues
            # A route also lists the queues of slaves (ids above 0), and queues that can only be written (rules 5.8).
            if queue.broker.id == 0 and queue.permission in (v2.Permission.READ, v2.Permission.READ_WRITE)
        ]
        lows = self._query_offsets(queues, v2.QueryOffsetPolicy.BEGINNING)
        highs = self._query_offsets(queues, v2.QueryOffsetPolicy.END)
        return {queue: Bounds(low, high) for queue, low, high in zip(queues, lows, highs, strict=True)}

    def _query_offsets(self, queues: Sequence[MessageQueue], policy: v2.QueryOffsetPolicy) -> list[int]:
        method = MESSAGING.methods["QueryOffset"]
        requests = [
            rpc.QueryOffsetRequest(message_queue=calls.encode_queue(queue), query_offset_policy=policy)
            for queue in queues
        ]
        responses = [self._channel.start(method, request) for request in requests]
        return [response().offset for response in responses]

    def cut_ranges(self, wanted: Sequence[RangeToCut]) -> list[list[Part]]:
        """Raises OptionError: see :attr:`abilities`."""
        raise OptionError(self.abilities.no_sizes)

    def report_lost(self, query_id: str, losses: Sequence[Loss]) -> None:
        """Does nothing: the standard protocol has no such call."""

    def list_topics(self) -> list[str]:
        """Lists the topics. A server without the columnar extension may still have the admin service."""
        return calls.list_topics(self._channel)

    def list_groups(self) -> list[str]:
        """Lists all groups with one call."""
        return calls.list_groups(self._channel)

    def query_progress(self, groups: Sequence[str]) -> list[GroupProgress]:
        """Asks which of the groups there are, and for all of these with one call."""
        return calls.query_progress(self._channel, groups)

    def check_filter(self, group: str, queue: MessageQueue, offset: int, message_filter: MessageFilter) -> None:
        """Pulls one message, which is the smallest request."""
        try:
            response = self._pull_one(group, queue, offset, message_filter)
        except FilterRefused as refusal:
            raise make_filter_error(message_filter, refusal) from None
        _log_reset(group, queue, response)

    def wait_for_messages(
        self,
        group: str,
        offsets: Mapping[MessageQueue, int],
        timeout_ms: int,
        message_filter: MessageFilter = EVERYTHING,
    ) -> bool:
        """Parks one pull per queue until the first response: the standard protocol has no pull for several."""
        parked = list(offsets.items())[:WAITING_QUEUES_MAX]
        cancellations = [Cancellation() for _ in parked]
        pulls = [
            self._channel.start_stream(
                PULL, make_pull_request(group, queue, offset, 1, message_filter, timeout_ms), cancellation, timeout_ms
            )
            for (queue, offset), cancellation in zip(parked, cancellations, strict=True)
        ]
        with ThreadPoolExecutor(max_workers=len(pulls), thread_name_prefix="rmqpull-wait") as threads:
            arrivals = [
                threads.submit(self._wait_for_pull, group, queue, pull)
                for (queue, _), pull in zip(parked, pulls, strict=True)
            ]
            try:
                done, _ = wait(arrivals, return_when=FIRST_COMPLETED)
                return any(arrival.result() for arrival in done)
            finally:
                for cancellation in cancellations:
                    cancellation.cancel()

    def _wait_for_pull(
        self, group: str, queue: MessageQueue, pull: Callable[[], list[rpc.PullMessageResponse]]
    ) -> bool:
        """Whether a parked pull returned for another reason than its timeout."""
        try:
            response = parse_pull_response(self.endpoints, pull())
        except (BrokerBusy, TopicNotFound, QueueNotFound):
            return True  # too many parked pulls must not end a query; and a missing queue shows in the bounds
        _log_reset(group, queue, response)
        return response.code != v2.Code.MESSAGE_NOT_FOUND

    def read(
        self,
        group: str,
        ranges: Sequence[QueueRange],
        columns: Sequence[str],
        creation_ids: Mapping[str, str] = NO_CREATION_IDS,
        message_filter: MessageFilter = EVERYTHING,
        on_loss: OnLoss = refuse_loss,
    ) -> Iterator[Sequence[QueueRows]]:
        """Pulls several queues at once, each with ``Flow.pull_batch_size`` messages per pull."""
        flow = self._flow
        limits = FlowLimits(
            flow.pull_threshold_size_for_topic * MIB,
            PULL_BYTES,
            flow.pull_threshold_for_queue or QUEUE_MESSAGES_OVER_GRPC,
            flow.pull_threshold_size_for_queue * MIB,
        )
        lanes = [
            QueueLane(self._channel, group, entry, flow.pull_batch_size, message_filter)
            for entry in ranges
            if entry.from_offset < entry.until_offset
        ]
        for pieces in ReadAhead(lanes, limits, LINGER_S):
            messages_by_queue: dict[MessageQueue, list[v2.Message]] = {}
            for piece in pieces:
                for loss in piece.losses:
                    on_loss(loss)
                queue, messages = piece.rows
                messages_by_queue.setdefault(queue, []).extend(messages)
            if rows := [
                QueueRows(queue, [make_batch(messages, columns)])
                for queue, messages in messages_by_queue.items()
                if messages
            ]:
                yield rows

    def _pull_one(self, group: str, queue: MessageQueue, offset: int, message_filter: MessageFilter) -> PullOutcome:
        request = make_pull_request(group, queue, offset, 1, message_filter)
        return parse_pull_response(self.endpoints, self._channel.start_stream(PULL, request)())

    def look_at(
        self, group: str, offsets: Mapping[MessageQueue, int], byte_max: int = BYTES_MAX
    ) -> dict[MessageQueue, Witness | None]:
        """Pulls one message of each queue, with one call for each."""
        return look_at(self._channel, group, offsets, byte_max)

    def query_messages(
        self, queues: Sequence[MessageQueue], key: str | None, msg_id: str | None, begin_ms: int = 0
    ) -> IndexedMessages:
        """Raises Unserved."""
        return calls.refuse_look_ups(self._channel)

    @property
    def lost_connections(self) -> None:
        """Not known: gRPC reconnects by itself, and the server may be a proxy in front of the broker."""
        return None

    def check_group(self, group: str, queues: Sequence[MessageQueue]) -> None:
        """Does nothing: over gRPC, a client that pulls is a member like others."""

    def prepare_reset(self, group: str, queues: Sequence[MessageQueue], target: ResetTarget) -> BrokerReset | None:
        """Asks the admin service for members. It resets all queues of a topic with one call, or each queue."""
        return calls.prepare_reset(self._channel, group, queues, target)

    def set_consumer_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Sets the offsets with one call per queue, while other calls get the previous ones."""
        try:
            return self._update_offsets(group, offsets)
        except GroupNotFound:
            # Only a pull creates a group (rules 6.1), and a query that found no messages has not pulled.
            queue, offset = next(iter(offsets.items()))
            self._channel.start_stream(PULL, make_pull_request(group, queue, offset, 1, EVERYTHING))()
            return self._update_offsets(group, offsets)

    def _update_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        previous = calls.start_get_consumer_offsets(self._channel, group, list(offsets))
        method = MESSAGING.methods["UpdateOffset"]
        requests = [
            rpc.UpdateOffsetRequest(
                group=v2.Resource(name=group), message_queue=calls.encode_queue(queue), offset=offset
            )
            for queue, offset in offsets.items()
        ]
        responses = [self._channel.start(method, request) for request in requests]
        for response in responses:
            response()
        try:
            return {queue: offset for queue, offset in previous().items() if offset is not None}
        except RmqpullError:  # the new offsets are set, and the previous ones only serve a warning
            return {}

    def get_consumer_offsets(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Gets the offsets with one call per queue."""
        return calls.get_consumer_offsets(self._channel, group, queues)

    def find_offsets_at(
        self, timestamps_ms: Mapping[MessageQueue, int], group: str = TOOLS_GROUP
    ) -> dict[MessageQueue, int]:
        """Finds the offsets with one call per queue."""
        return calls.find_offsets_at(self._channel, timestamps_ms)

    def publish(self, topic: str, batch: pa.RecordBatch) -> None:
        """Raises RequestRefused: the standard protocol has no batches in columns."""
        raise RequestRefused(
            "UNSUPPORTED",
            f"The server at {self._channel.endpoints} does not accept batches in columns: it lacks ColumnService of "
            "rmqpull.v1 (extension columns). Publish to rmqpull-broker, or with another client of RocketMQ.",
        )

    def close(self) -> None:
        """Closes this process's connection."""
        self._channel.close()


def _log_reset(group: str, queue: MessageQueue, response: PullOutcome) -> None:
    """Logs the reset that a response reports. The broker does not report it again."""
    if response.is_reset and response.next_offset is not None:
        log_reset(group, queue, response.next_offset)
