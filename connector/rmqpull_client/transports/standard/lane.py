"""Reading one queue by the standard protocol: a few messages per pull, one pull after the other."""

from __future__ import annotations

from collections.abc import Sequence

from rmqpull_client.errors import BrokerUnavailable
from rmqpull_client.loss import Loss, make_range_loss
from rmqpull_client.model import MessageFilter, MessageQueue, QueueRange
from rmqpull_client.transports.grpc.calls import encode_filter, encode_queue
from rmqpull_client.transports.grpc.channel import BrokerChannel
from rmqpull_client.transports.grpc.failures import refuse_status
from rmqpull_client.transports.grpc.retry import Cancellation
from rmqpull_client.transports.port import log_reset
from rmqpull_client.transports.reading_ahead import Piece
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc
from rmqpull_proto.rpc import MESSAGING

PULL = MESSAGING.methods["PullMessage"]


def pull_request(
    group: str,
    queue: MessageQueue,
    offset: int,
    batch_size: int,
    message_filter: MessageFilter,
    long_polling_timeout_ms: int = 0,
) -> rpc.PullMessageRequest:
    """One pull of at most ``batch_size`` messages, parked for ``long_polling_timeout_ms`` when there are none."""
    request = rpc.PullMessageRequest(
        group=v2.Resource(name=group),
        message_queue=encode_queue(queue),
        offset=offset,
        batch_size=batch_size,
        filter_expression=encode_filter(message_filter),
    )
    request.long_polling_timeout.FromMilliseconds(long_polling_timeout_ms)
    return request


class QueueLane:
    """See :class:`rmqpull_client.transports.reading_ahead.Lane`."""

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
        """Whether the range is read."""
        return self._offset >= self._until_offset

    def pull(self) -> Piece[tuple[MessageQueue, list[v2.Message]]]:
        """One pull; its messages without those that a filter by tags does not want."""
        count = min(self._until_offset - self._offset, self._batch_size)
        request = pull_request(self._group, self._queue, self._offset, count, self._filter)
        answer = self._channel.start_stream(PULL, request, self._cancellation)()
        messages = [part.message for part in answer if part.WhichOneof("content") == "message"]
        losses: list[Loss] = []
        self._advance(answer, [message.system_properties.queue_offset for message in messages], losses)
        wanted = [message for message in messages if self._is_wanted(message.system_properties)]
        return Piece((self._queue, wanted), len(wanted), sum(len(message.body) for message in wanted), losses)

    def cancel(self) -> None:
        """Ends the pull under way."""
        self._cancellation.cancel()

    def _is_wanted(self, system: v2.SystemProperties) -> bool:
        tags = self._filter.tags
        return system.queue_offset < self._until_offset and (not tags or system.tag in tags)

    def _advance(self, answer: Sequence[rpc.PullMessageResponse], offsets: Sequence[int], losses: list[Loss]) -> None:
        """Moves on to where the next pull begins, and tells what this one shows to be lost."""
        status = find_status(answer)
        next_offset = next((part.next_offset for part in answer if part.WhichOneof("content") == "next_offset"), None)
        if is_of_missing_queue(status):
            losses.append(make_range_loss(QueueRange(self._queue, self._offset, self._until_offset)))
            self._offset = self._until_offset
            return
        refuse_pull(self._channel.endpoints, status)
        if next_offset is None:
            raise BrokerUnavailable(f"A pull from queue {self._queue} at offset {self._offset} ended without its end.")
        if status.code == v2.Code.ILLEGAL_OFFSET and status.message == "OFFSET_RESET":
            log_reset(self._group, self._queue, next_offset)
            return
        if not self._is_complete(status, offsets, next_offset):
            next_offset = self._behind_loss(offsets, next_offset, status.message, losses)
        self._offset = next_offset

    def _behind_loss(self, offsets: Sequence[int], next_offset: int, status: str, losses: list[Loss]) -> int:
        """Tells what an incomplete pull shows to be lost, and where to go on: at the end if it goes no further."""
        text = (
            f"Messages of queue {self._queue} in [{self._offset}, {self._until_offset}) are lost: a pull at "
            f"{self._offset} gave {len(offsets)} messages, ended at {next_offset} and responded {status!r}."
        )
        resumed = min(next_offset if next_offset > self._offset else self._until_offset, self._until_offset)
        missing = resumed - self._offset - sum(self._offset <= offset < resumed for offset in offsets)
        losses.append(Loss(self._queue, resumed - missing, resumed, text))
        return resumed

    def _is_complete(self, status: v2.Status, offsets: Sequence[int], next_offset: int) -> bool:
        """Whether the pull met every message up to the next one. All of them were there when the batch was planned."""
        if self._filter.keeps_everything:
            return bool(offsets) and list(offsets) == list(range(self._offset, next_offset))
        if status.code == v2.Code.OK:
            return bool(offsets) and self._offset <= min(offsets) and max(offsets) < next_offset
        return status.message == "NO_MATCHED_MESSAGE" and next_offset > self._offset


def find_status(answer: Sequence[rpc.PullMessageResponse]) -> v2.Status:
    """What a pull says beside its messages."""
    return next((part.status for part in answer if part.WhichOneof("content") == "status"), v2.Status())


def refuse_pull(endpoints: str, status: v2.Status) -> None:
    """Raises RequestRefused for a status that says neither that there are messages nor that there are none."""
    if status.code not in (v2.Code.ILLEGAL_OFFSET, v2.Code.MESSAGE_NOT_FOUND):
        refuse_status(endpoints, PULL, status)


def is_of_missing_queue(status: v2.Status) -> bool:
    """Whether a pull was refused since its topic or its queue does not exist (rules 3.1, rows 5 and 8)."""
    is_beyond = status.code == v2.Code.BAD_REQUEST and status.message.startswith("queueId[")
    return is_beyond or status.code == v2.Code.TOPIC_NOT_FOUND
