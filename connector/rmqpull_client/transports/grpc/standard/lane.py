"""Reads one queue with the standard protocol: a few messages per pull, one pull after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rmqpull_client.errors import BrokerUnavailable, QueueNotFound, TopicNotFound
from rmqpull_client.loss import Loss, make_range_loss
from rmqpull_client.model import MessageFilter, MessageQueue, QueueRange
from rmqpull_client.transports.grpc.calls import encode_filter, encode_queue
from rmqpull_client.transports.grpc.channel import BrokerChannel
from rmqpull_client.transports.grpc.failures import refuse_status
from rmqpull_client.transports.grpc.reading_ahead import Piece
from rmqpull_client.transports.grpc.retry import Cancellation
from rmqpull_client.transports.port import log_reset
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc
from rmqpull_proto.rpc import MESSAGING

PULL = MESSAGING.methods["PullMessage"]


class PullOutcome(NamedTuple):
    """The response to one pull.

    ``next_offset`` is None if the response ended early. ``pull_status`` is RocketMQ's name, such as ``OFFSET_RESET``,
    which the server sends as the text of the status.
    """

    messages: Sequence[v2.Message]
    next_offset: int | None
    code: int
    pull_status: str

    @property
    def is_reset(self) -> bool:
        """Whether the response only reports that the consumer offset was reset."""
        return self.code == v2.Code.ILLEGAL_OFFSET and self.pull_status == "OFFSET_RESET"

    @property
    def has_no_match(self) -> bool:
        """Whether there were messages, and the filter dropped all of them."""
        return self.pull_status == "NO_MATCHED_MESSAGE"


def make_pull_request(
    group: str,
    queue: MessageQueue,
    offset: int,
    batch_size: int,
    message_filter: MessageFilter,
    long_polling_timeout_ms: int = 0,
) -> rpc.PullMessageRequest:
    """Returns a pull of at most ``batch_size`` messages, parked for at most ``long_polling_timeout_ms``."""
    request = rpc.PullMessageRequest(
        group=v2.Resource(name=group),
        message_queue=encode_queue(queue),
        offset=offset,
        batch_size=batch_size,
        filter_expression=encode_filter(message_filter),
    )
    request.long_polling_timeout.FromMilliseconds(long_polling_timeout_ms)
    return request


def parse_pull_response(endpoints: str, parts: Sequence[rpc.PullMessageResponse]) -> PullOutcome:
    """Returns the response to a pull. Raises RequestRefused, such as TopicNotFound or QueueNotFound."""
    status = next((part.status for part in parts if part.WhichOneof("content") == "status"), v2.Status())
    if status.code not in (v2.Code.ILLEGAL_OFFSET, v2.Code.MESSAGE_NOT_FOUND):
        refuse_status(endpoints, PULL, status)
    messages = [part.message for part in parts if part.WhichOneof("content") == "message"]
    next_offset = next((part.next_offset for part in parts if part.WhichOneof("content") == "next_offset"), None)
    return PullOutcome(messages, next_offset, status.code, status.message)


class QueueLane:
    """The pulls of one range. See :class:`rmqpull_client.transports.grpc.reading_ahead.Lane`."""

    def __init__(
        self, channel: BrokerChannel, group: str, entry: QueueRange, batch_size: int, message_filter: MessageFilter
    ) -> None:
        self._queue, self._offset, self._until_offset = entry
        self._channel = channel
        self._group = group
        self._batch_size = batch_size
        self._filter = message_filter
        self._cancellation = Cancellation()

    @property
    def is_done(self) -> bool:
        """Whether the range has been read."""
        return self._offset >= self._until_offset

    def pull(self) -> Piece[tuple[MessageQueue, list[v2.Message]]]:
        """Pulls once. The piece has the messages whose tags match the filter."""
        count = min(self._until_offset - self._offset, self._batch_size)
        request = make_pull_request(self._group, self._queue, self._offset, count, self._filter)
        parts = self._channel.start_stream(PULL, request, self._cancellation)()
        losses: list[Loss] = []
        messages: Sequence[v2.Message] = ()
        try:
            response = parse_pull_response(self._channel.endpoints, parts)
        except (TopicNotFound, QueueNotFound):
            losses.append(make_range_loss(QueueRange(self._queue, self._offset, self._until_offset)))
            self._offset = self._until_offset
        else:
            messages = response.messages
            self._advance(response, losses)
        wanted = [message for message in messages if self._is_wanted(message.system_properties)]
        return Piece((self._queue, wanted), len(wanted), sum(len(message.body) for message in wanted), losses)

    def cancel(self) -> None:
        """Ends the pull in flight."""
        self._cancellation.cancel()

    def _is_wanted(self, system: v2.SystemProperties) -> bool:
        tags = self._filter.tags
        return system.queue_offset < self._until_offset and (not tags or system.tag in tags)

    def _advance(self, response: PullOutcome, losses: list[Loss]) -> None:
        """Moves to the offset of the next pull, and adds the losses that this one reveals."""
        if response.next_offset is None:
            raise BrokerUnavailable(
                f"The response to a pull from queue {self._queue} at offset {self._offset} ended early."
            )
        if response.is_reset:
            log_reset(self._group, self._queue, response.next_offset)
        elif self._is_complete(response, response.next_offset):
            self._offset = response.next_offset
        else:
            losses.append(self._find_loss(response, response.next_offset))
            self._offset = losses[-1].until_offset

    def _find_loss(self, response: PullOutcome, next_offset: int) -> Loss:
        """Returns the loss that an incomplete pull reveals: the rest of the range if the pull makes no progress."""
        text = (
            f"Messages of queue {self._queue} in [{self._offset}, {self._until_offset}) are lost: a pull at "
            f"{self._offset} returned {len(response.messages)} messages, the next offset {next_offset} and the status "
            f"{response.pull_status!r}."
        )
        resumed = min(next_offset if next_offset > self._offset else self._until_offset, self._until_offset)
        found = sum(self._offset <= message.system_properties.queue_offset < resumed for message in response.messages)
        return Loss(self._queue, self._offset + found, resumed, text)

    def _is_complete(self, response: PullOutcome, next_offset: int) -> bool:
        """Whether the pull examined all messages before the next offset. All existed when the range was planned."""
        offsets = [message.system_properties.queue_offset for message in response.messages]
        if self._filter.keeps_everything:
            return bool(offsets) and offsets == list(range(self._offset, next_offset))
        if response.code == v2.Code.OK:
            return bool(offsets) and self._offset <= min(offsets) and max(offsets) < next_offset
        return response.has_no_match and next_offset > self._offset
