"""Asks brokers for the bounds of queues, and for offsets by time."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from rmqpull_client.errors import OptionError
from rmqpull_client.light_queues import is_light
from rmqpull_client.model import EVERYTHING, Bounds, MessageQueue, TopicBounds
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_client.transports.remoting.network.exchange import ANY_CODE, Exchange
from rmqpull_client.transports.remoting.reading.pulls import make_pull
from rmqpull_proto.remoting import record_layout as layout
from rmqpull_proto.remoting.codes import VERSION_5, RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.headers import OffsetResponseHeader

_INT, _LONG = struct.Struct(">i"), struct.Struct(">q")
_LOOKED = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


def make_queue_request(code: RequestCode, queue: MessageQueue, **fields: str) -> RemotingCommand:
    """Returns a request about a queue."""
    return RemotingCommand(code, {"topic": queue.topic, "queueId": str(queue.queue_id), **fields})


def read_offset(response: RemotingCommand) -> int:
    """Returns the offset of a response. Raises WireError if there is none."""
    return OffsetResponseHeader.from_fields(response.fields).offset


class BoundsQuery:
    """Queries the bounds of topics, and remembers them.

    If only a slave responds, it may lack messages that its master has: bounds that were known before still hold.
    """

    def __init__(self, channel: RemotingChannel) -> None:
        self._channel = channel
        self._known: dict[MessageQueue, Bounds] = {}
        self._with_light_queues: set[str] = set()

    def query(self, topics: Sequence[str]) -> dict[str, TopicBounds]:
        """Returns the bounds of the readable queues of each topic. Topics that do not exist are left out."""
        routes = self._channel.routes.get_routes(topics)
        queues = {topic: route.list_readable(topic) for topic, route in routes.items()}
        self._refuse_without_light_queues([queue for topic in queues if is_light(topic) for queue in queues[topic]])
        bounds = self.query_queues([queue for found in queues.values() for queue in found])
        return {
            topic: TopicBounds(
                None, {queue: bounds[queue] for queue in found}, unreadable=routes[topic].list_unreadable(topic)
            )
            for topic, found in queues.items()
        }

    def _refuse_without_light_queues(self, queues: Sequence[MessageQueue]) -> None:
        """Raises OptionError if a broker keeps no light message queues: it would report each of them as empty.

        A broker is asked once. A proxy, or a broker that refuses the question, counts as keeping them.
        """
        by_broker = {queue.broker_name: queue for queue in queues if queue.broker_name not in self._with_light_queues}
        requests = [
            (
                Target.of(queue, may_use_slave=True),
                RemotingCommand(RequestCode.GET_TOPIC_STATS_INFO, {"topic": queue.topic}),
            )
            for queue in by_broker.values()
        ]
        for queue, response in zip(
            by_broker.values(), self._channel.call_all(requests, accepted=ANY_CODE) if requests else (), strict=True
        ):
            if response.code == ResponseCode.TOPIC_NOT_EXIST:
                raise OptionError(
                    f"Broker {queue.broker_name} keeps no light message queues, such as {queue.topic}. Set "
                    "enableLmq=true and enableMultiDispatch=true in the broker's configuration."
                )
            self._with_light_queues.add(queue.broker_name)

    def query_queues(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, Bounds]:
        """Returns the bounds of queues."""
        bounds: dict[MessageQueue, Bounds] = {}
        with Exchange(self._channel) as exchange:
            calls = [
                exchange.start(Target.of(queue, may_use_slave=True), make_queue_request(code, queue))
                for queue in queues
                for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
            ]
            responses = exchange.wait(calls)
        for queue, low, high, call in zip(queues, responses[::2], responses[1::2], calls[1::2], strict=True):
            found = Bounds(read_offset(low), read_offset(high))
            known = self._known.get(queue)
            is_slave = call.place is not None and call.place.is_slave
            if is_slave and known is not None:
                found = Bounds(min(found.min_offset, known.min_offset), max(found.max_offset, known.max_offset))
            self._known[queue] = bounds[queue] = found
        return bounds


def find_offsets_at(
    channel: RemotingChannel, timestamps_ms: Mapping[MessageQueue, int], group: str
) -> dict[MessageQueue, int]:
    """Returns the offset of each queue's first message stored at or after a time, or its max offset.

    On brokers before 5.0, messages are pulled as ``group``, which needs the right to do so.
    """
    requests = [
        (
            Target.of(queue),
            make_queue_request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queue, timestamp=str(max(0, timestamp_ms))),
        )
        for queue, timestamp_ms in timestamps_ms.items()
    ]
    responses = channel.call_all(requests)
    found = {queue: read_offset(response) for queue, response in zip(timestamps_ms, responses, strict=True)}
    nearest = {  # before 5.0, brokers find the nearest message to a time, not the next one (rules 3.11)
        queue: offset
        for (queue, offset), response in zip(found.items(), responses, strict=True)
        if response.version < VERSION_5
    }
    return found | _Search(channel, timestamps_ms, nearest, group).run()


class _Search:
    """Searches queues by the store times of single messages, from the offset of a message near the time.

    Messages of a queue before its ``_lows`` are older than the time, and those from its ``_highs`` on are not. In each
    round one message of each unfinished queue is looked at. Two rounds are enough unless messages have the same time.
    """

    def __init__(
        self,
        channel: RemotingChannel,
        timestamps_ms: Mapping[MessageQueue, int],
        near: Mapping[MessageQueue, int],
        group: str,
    ) -> None:
        self._channel = channel
        self._group = group
        self._timestamps_ms = timestamps_ms
        self._probes = dict(near)
        bounds = BoundsQuery(channel).query_queues(list(near))
        self._lows = {queue: found.min_offset for queue, found in bounds.items()}
        self._highs = {queue: found.max_offset for queue, found in bounds.items()}

    def run(self) -> dict[MessageQueue, int]:
        """Returns the offset of each queue."""
        is_near = True
        while unfinished := [queue for queue in self._probes if self._lows[queue] < self._highs[queue]]:
            for queue in unfinished:
                self._probes[queue] = min(max(self._probes[queue], self._lows[queue]), self._highs[queue] - 1)
            for queue, time_ms in zip(unfinished, self._query_times(unfinished), strict=True):
                at = self._probes[queue]
                if time_ms is None or time_ms < self._timestamps_ms[queue]:  # deleted messages are the oldest ones
                    self._lows[queue] = self._probes[queue] = at + 1
                else:
                    self._highs[queue] = at
                    self._probes[queue] = at - 1
                if not is_near:
                    self._probes[queue] = (self._lows[queue] + self._highs[queue]) // 2
            is_near = False
        return self._highs

    def _query_times(self, queues: Sequence[MessageQueue]) -> list[int | None]:
        """Returns the store time of one message of each queue, or None if there is none at its offset."""
        requests = [
            (Target.of(queue), make_pull(self._group, queue, self._probes[queue], 1, EVERYTHING)) for queue in queues
        ]
        return [_read_store_time(response) for response in self._channel.call_all(requests, accepted=_LOOKED)]


def _read_store_time(response: RemotingCommand) -> int | None:
    """Returns the store time of the first message of a response, in milliseconds (rules 4.7)."""
    body = response.body
    if response.code != ResponseCode.SUCCESS or len(body) < layout.RECORD_BYTES_MIN:
        return None
    (flags,) = _INT.unpack_from(body, layout.SYS_FLAG_AT)
    more = layout.IPV6_MORE_BYTES if flags & layout.BORN_HOST_IPV6 else 0
    (time_ms,) = _LONG.unpack_from(body, layout.STORE_TIMESTAMP_AT + more)
    return int(time_ms)
