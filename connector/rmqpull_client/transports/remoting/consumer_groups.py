"""The consumer offsets of a group to which this client does not belong.

The client sends no heartbeats, because a member would get a share of the group's queues. So it first asks whether the
group has members: it must not overwrite their offsets.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence

from rmqpull_client.errors import OptionError, RmqpullError
from rmqpull_client.model import EVERYTHING, MessageQueue
from rmqpull_client.transports.remoting.network import failures
from rmqpull_client.transports.remoting.network.calls import Call
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_client.transports.remoting.network.exchange import Exchange
from rmqpull_client.transports.remoting.offset_queries import make_queue_request, read_offset
from rmqpull_client.transports.remoting.reading.pulls import PULLED, make_pull
from rmqpull_proto.remoting.codes import VERSION_5, RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.json_dialect import read_json

MEMBERS_EVERY_S = 60.0
"""How often brokers are asked whether a group has members, while its offsets are being set."""
_MEMBERS_SHOWN = 3
_FOUND_OR_NOT = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
_SET_OR_NO_GROUP = (ResponseCode.SUCCESS, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
_SENT_BACK_OR_NOT = _LISTED_OR_NONE = (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR)
_NO_OFFSET_MAX = 1 << 60
"""A log position beyond every message."""
_logger = logging.getLogger(__name__)


class ConsumerGroups:
    """Gets and sets the consumer offsets of groups. ``clock`` returns seconds."""

    def __init__(self, channel: RemotingChannel, clock: Callable[[], float] = time.monotonic) -> None:
        self._channel = channel
        self._clock = clock
        self._checked_s: dict[str, float] = {}
        self._shown: set[tuple[str, str]] = set()
        self._begun: set[tuple[str, str, str]] = set()

    def get_offsets(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Returns the group's consumer offset of each queue, or None.

        A 4.x broker responds with 0 for a queue without one while its first message is in memory (rules 3.5.2). That
        cannot be distinguished from a stored offset 0, except in an empty queue.
        """
        requests = [
            (
                Target.of(queue),
                make_queue_request(
                    RequestCode.QUERY_CONSUMER_OFFSET, queue, consumerGroup=group, setZeroIfNotFound="false"
                ),
            )
            for queue in queues
        ]
        responses = self._channel.call_all(requests, accepted=_FOUND_OR_NOT)
        found = {queue: _read_consumer_offset(response) for queue, response in zip(queues, responses, strict=True)}
        doubtful = [
            queue
            for (queue, offset), response in zip(found.items(), responses, strict=True)
            if offset == 0 and response.version < VERSION_5
        ]
        ends = self._channel.call_all(
            (Target.of(queue), make_queue_request(RequestCode.GET_MAX_OFFSET, queue)) for queue in doubtful
        )
        return found | {queue: None for queue, end in zip(doubtful, ends, strict=True) if not read_offset(end)}

    def set_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Sets consumer offsets, and returns the previous ones. Raises OptionError if the group has members."""
        if not offsets:
            return {}
        by_broker = {queue.broker_name: queue for queue in offsets}
        if self._clock() - self._checked_s.get(group, -math.inf) >= MEMBERS_EVERY_S:
            self.refuse_members(group, list(offsets))
        previous = self.get_offsets(group, list(offsets))
        if missing := self.update_offsets(group, offsets):
            # A broker sets no offset of an unknown group, and only a pull creates one, on its own broker (rules 6.1).
            pulls = [
                (Target.of(queue), make_pull(group, queue, offset, 1, EVERYTHING))
                for queue, offset in {queue.broker_name: (queue, offset) for queue, offset in missing.items()}.values()
            ]
            self._channel.call_all(pulls, accepted=PULLED)
            self.update_offsets(group, missing, accepted=_SET_OR_NO_GROUP[:1])
        self._show(group, list(by_broker.values()))
        return {queue: offset for queue, offset in previous.items() if offset is not None}

    def update_offsets(
        self,
        group: str,
        offsets: Mapping[MessageQueue, int],
        accepted: Sequence[ResponseCode] = _SET_OR_NO_GROUP,
    ) -> dict[MessageQueue, int]:
        """Sets offsets without asking for members, and returns those of brokers that do not have the group.

        A broker that sets a group's first offsets on a topic concurrently loses some of them (rules 6.1). So one is set
        first.
        """
        first = {
            (group, queue.topic, queue.broker_name): (queue, offset)
            for queue, offset in offsets.items()
            if (group, queue.topic, queue.broker_name) not in self._begun
        }
        missing: dict[MessageQueue, int] = {}
        rest = dict(offsets)
        for queue, _ in first.values():
            del rest[queue]
        for entries in (dict(first.values()), rest):
            responses = self._channel.call_all(
                [
                    (
                        Target.of(queue),
                        make_queue_request(
                            RequestCode.UPDATE_CONSUMER_OFFSET, queue, consumerGroup=group, commitOffset=str(offset)
                        ),
                    )
                    for queue, offset in entries.items()
                ],
                accepted=accepted,
            )
            missing |= {
                queue: offset
                for (queue, offset), response in zip(entries.items(), responses, strict=True)
                if response.code != ResponseCode.SUCCESS
            }
        away = {queue.broker_name for queue in missing}
        self._begun.update(key for key in first if key[2] not in away)
        return missing

    def refuse_members(self, group: str, queues: Sequence[MessageQueue]) -> None:
        """Raises OptionError if a group has members, and RequestRefused."""
        now_s = self._clock()
        members = self.list_members(group, queues)
        if members:
            raise OptionError(
                f"Consumer group {group} has members in the cluster at {self._channel.endpoints}: "
                f"{join_members(members)}. They set its consumer offsets. Use another group (option "
                "consumerGroup), or set option commitOffsets to false."
            )
        self._checked_s[group] = now_s

    def list_members(self, group: str, queues: Sequence[MessageQueue]) -> list[str]:
        """Asks brokers for the client ids of a group. Raises RequestRefused.

        A member sends heartbeats to all brokers, slaves too. So a slave is asked while its master is away.
        """
        request = RemotingCommand(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
        with Exchange(self._channel) as exchange:
            calls = [
                exchange.start(Target.of(queue, may_use_slave=True), request, accepted=_LISTED_OR_NONE)
                for queue in {queue.broker_name: queue for queue in queues}.values()
            ]
            exchange.wait(calls)
        return sorted({member for call in calls for member in _read_members(call)})

    def _show(self, group: str, queues: Sequence[MessageQueue]) -> None:
        """Makes brokers create the group's retry topic: `mqadmin consumerProgress` finds the group by its route.

        A member's heartbeat would do so. This client sends back a message that does not exist instead: the broker
        creates the topic before it looks for the message (rules 6.1). If a broker refuses, only that command misses the
        group.
        """
        hidden = [queue for queue in queues if (group, queue.broker_name) not in self._shown]
        if not hidden:
            return
        self._shown.update((group, queue.broker_name) for queue in hidden)
        requests = [
            (
                Target.of(queue),
                RemotingCommand(
                    RequestCode.CONSUMER_SEND_MSG_BACK,
                    {
                        "group": group,
                        "offset": str(_NO_OFFSET_MAX),
                        "delayLevel": "0",
                        "originTopic": queue.topic,
                        "unitMode": "false",
                    },
                ),
            )
            for queue in hidden
        ]
        try:
            self._channel.call_all(requests, accepted=_SENT_BACK_OR_NOT)
        except RmqpullError as error:
            _logger.info("mqadmin consumerProgress may not show consumer group %s: %s", group, error)


def join_members(members: Sequence[str]) -> str:
    """Returns the first client ids, and how many more there are."""
    more = f" and {len(members) - _MEMBERS_SHOWN} more" if len(members) > _MEMBERS_SHOWN else ""
    return f"{', '.join(members[:_MEMBERS_SHOWN])}{more}"


def _read_consumer_offset(response: RemotingCommand) -> int | None:
    if response.code != ResponseCode.SUCCESS:
        return None
    offset = read_offset(response)
    return offset if offset >= 0 else None


def _read_members(call: Call) -> list[str]:
    response = call.get_response()
    assert call.place is not None, "it has responded"
    if response.code != ResponseCode.SUCCESS and not failures.has_no_members(response):
        raise failures.make_refusal(call.place, call.command, response)
    if not len(response.body):
        return []
    try:
        members = read_json(response.body)
    except WireError as error:
        raise failures.make_bad_body_error(call.place, call.command, error) from None
    return [str(member) for member in members.get("consumerIdList") or []]
