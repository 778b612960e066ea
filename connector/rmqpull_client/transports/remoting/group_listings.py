"""The consumer groups of a cluster, and how far they are: what every broker is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any, TypeVar

from rmqpull_client.connection import unwrap_name
from rmqpull_client.model import GroupProgress, MessageQueue
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_client.transports.remoting.network.exchange import Exchange
from rmqpull_client.transports.remoting.network.listings import decode_body
from rmqpull_proto.names import GROUPS_FROM_START
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.json_dialect import read_json

_T = TypeVar("_T")
_FOUND_OR_NOT = (ResponseCode.SUCCESS, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)


class GroupListings:
    """Lists groups and their offsets. Methods raise what calls of a channel raise."""

    def __init__(self, channel: RemotingChannel) -> None:
        self._channel = channel

    def list_groups(self) -> list[str]:
        """Returns the groups in the connection's namespace that a broker has, except RocketMQ's own."""
        command = RemotingCommand(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        found = {name for names in self._ask_brokers([command], _read_groups) for name in names}
        inner = (
            unwrap_name(self._channel.connection.namespace, name) for name in found if name not in GROUPS_FROM_START
        )
        return sorted(name for name in inner if name is not None)

    def query_progress(self, groups: Sequence[str]) -> list[GroupProgress]:
        """Asks each broker for each group. Queues without a consumer offset are left out."""
        commands = [
            RemotingCommand(RequestCode.GET_CONSUME_STATS, {"consumerGroup": group, "topic": ""}) for group in groups
        ]
        answers = self._ask_brokers(commands, _read_progress)
        namespace = self._channel.connection.namespace
        return sorted(
            GroupProgress(group, queue._replace(topic=topic), consumer_offset, max_offset, consumed_ms)
            for group, answer in zip(cycle(groups), answers, strict=False)
            for queue, consumer_offset, max_offset, consumed_ms in answer
            if (topic := unwrap_name(namespace, queue.topic)) is not None
        )

    def _ask_brokers(self, commands: Sequence[RemotingCommand], read: Callable[[bytes | memoryview], _T]) -> list[_T]:
        """Sends requests to each master, and returns the bodies of the responses, broker by broker."""
        brokers = self._channel.listings.list_masters_of_groups()
        with Exchange(self._channel) as exchange:
            calls = [
                exchange.start(Target.of_broker(name), command, accepted=_FOUND_OR_NOT)
                for name in brokers
                for command in commands
            ]
            exchange.wait(calls)
        return [decode_body(call, read) for call in calls]


def _read_groups(body: bytes | memoryview) -> list[str]:
    table = _read_table(body, "subscriptionGroupTable")
    return list(table)


Progress = tuple[MessageQueue, int, int, int]
"""A queue with its consumer offset, its max offset, and the store time of the last message before the offset."""


def _read_progress(body: bytes | memoryview) -> list[Progress]:
    found = list[Progress]()
    for key, value in _read_table(body, "offsetTable").items():
        queue = read_json(key.encode())
        try:
            found.append(
                (
                    MessageQueue(str(queue["topic"]), str(queue["brokerName"]), int(queue["queueId"])),
                    int(value["consumerOffset"]),
                    int(value["brokerOffset"]),
                    int(value.get("lastTimestamp") or 0),
                )
            )
        except (KeyError, TypeError, ValueError) as error:
            raise WireError(f"a queue of offsetTable cannot be read: {error!r}") from None
    return found


def _read_table(body: bytes | memoryview, name: str) -> dict[str, Any]:
    """Returns an object in the body of a response; an empty one without a body. Raises WireError."""
    if not len(body):
        return {}
    value = read_json(body)
    table = value.get(name) if isinstance(value, dict) else None
    if not isinstance(table, dict):
        raise WireError(f"the body has no object {name}")
    return table
