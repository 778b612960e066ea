"""Resets of groups with members by their brokers (rules 3.5.3), as `mqadmin resetOffsetByTime` does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rmqpull_client.connection import unwrap_name
from rmqpull_client.errors import OptionError, RequestRefused, RmqpullError, Unserved
from rmqpull_client.model import MessageQueue, ResetTarget
from rmqpull_client.transports.remoting.consumer_groups import ConsumerGroups, join_members
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_client.transports.remoting.network.exchange import Exchange
from rmqpull_client.transports.remoting.network.failures import join_names, make_proxy_reset_error
from rmqpull_client.transports.remoting.network.listings import decode_body
from rmqpull_client.transports.tools_port import BrokerReset
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.json_dialect import read_json

_STORES = "useServerSideResetOffset"
"""The property of brokers, from 5.1, that makes them set consumer offsets. Others only tell the members."""


class BrokerResets:
    """Prepares resets. The method raises what calls of a channel raise."""

    def __init__(self, channel: RemotingChannel, groups: ConsumerGroups) -> None:
        self._channel = channel
        self._groups = groups

    def prepare(self, group: str, queues: Sequence[MessageQueue], target: ResetTarget) -> BrokerReset | None:
        """See :meth:`rmqpull_client.transports.tools_port.ToolCalls.prepare_reset`."""
        members = self._groups.list_members(group, queues)
        if not members:
            return None
        brokers = sorted({queue.broker_name for queue in queues})
        telling = self._list_telling(group, target.topic, brokers, members)
        if telling and target.queue_id is not None:
            # They would ignore which queue it is, and reset all queues.
            raise OptionError(
                f"Consumer group {group} has members: {join_members(members)}. Broker {join_names(telling)} can reset "
                f"such a group only on all queues of a topic, to a time: it has no {_STORES}=true, which brokers have "
                "from 5.1 on. Stop the members first, or reset all queues."
            )
        return BrokerReset(members, not telling, lambda: self._run(group, target, brokers))

    def _list_telling(self, group: str, topic: str, brokers: Sequence[str], members: Sequence[str]) -> list[str]:
        """Returns the brokers that only tell the members. Raises OptionError for a proxy."""
        command = RemotingCommand(RequestCode.GET_BROKER_CONFIG)
        try:
            with Exchange(self._channel) as exchange:
                calls = [exchange.start(Target(topic, name), command) for name in brokers]
                exchange.wait(calls)
        except Unserved:
            if self._channel.cluster.is_proxied:
                raise make_proxy_reset_error(self._channel.endpoints, group, join_members(members)) from None
            raise
        properties = (decode_body(call, read_properties) for call in calls)
        return [name for name, own in zip(brokers, properties, strict=True) if own.get(_STORES) != "true"]

    def _run(self, group: str, target: ResetTarget, brokers: Sequence[str]) -> dict[MessageQueue, int]:
        """Asks one broker after the other, so that an error can say which of them have reset the group."""
        found = dict[MessageQueue, int]()
        for count, name in enumerate(brokers):
            try:
                found.update(self._ask(name, _make_request(group, target)))
            except RmqpullError as error:
                if not count:
                    raise
                done = f"{error} These brokers have reset the group before: {join_names(brokers[:count])}."
                code = error.code if isinstance(error, RequestRefused) else ""
                raise RequestRefused(code, done) from None
        return found

    def _ask(self, broker_name: str, command: RemotingCommand) -> Iterator[tuple[MessageQueue, int]]:
        with Exchange(self._channel) as exchange:
            call = exchange.start(Target(command.fields["topic"], broker_name), command)
            exchange.wait([call])
        namespace = self._channel.connection.namespace
        for queue, offset in decode_body(call, read_offsets).items():
            yield queue._replace(topic=unwrap_name(namespace, queue.topic) or queue.topic), offset


def _make_request(group: str, target: ResetTarget) -> RemotingCommand:
    fields = {"group": group, "topic": target.topic, "timestamp": str(target.timestamp_ms), "isForce": "true"}
    if target.queue_id is not None:
        fields["queueId"] = str(target.queue_id)
    if target.offset is not None:
        fields["offset"] = str(target.offset)
    return RemotingCommand(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)


def read_properties(body: bytes | memoryview) -> Mapping[str, str]:
    """Returns the properties of a broker, each of which is on a line ``name=value``."""
    lines = bytes(body).decode(errors="replace").splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}


def read_offsets(body: bytes | memoryview) -> dict[MessageQueue, int]:
    """Returns the new offsets of a group by queue, with the broker's names of topics. Raises WireError."""
    value = read_json(body) if len(body) else None
    table = value.get("offsetTable") if isinstance(value, dict) else None
    if not isinstance(table, dict):
        raise WireError("the body has no object offsetTable")
    found = dict[MessageQueue, int]()
    for key, offset in table.items():
        queue = read_json(key.encode())
        try:
            found[MessageQueue(str(queue["topic"]), str(queue["brokerName"]), int(queue["queueId"]))] = int(offset)
        except (KeyError, TypeError, ValueError) as error:
            raise WireError(f"a queue of offsetTable cannot be read: {error!r}") from None
    return found
