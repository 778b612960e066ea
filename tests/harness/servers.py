"""Servers of every kind that Spark reads from and writes to: brokers of this project here, Apache RocketMQ in
``tests/harness/apache_servers.py``.

The same tests run against all of them. What a kind cannot do is listed in ``tests/harness/server_kinds.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rmqpull_broker.core.admin.topics import put_topic
from rmqpull_broker.core.model import (
    PERM_READ,
    BodyEncoding,
    Bounds,
    Message,
    MessageQueue,
    StoredMessage,
    TopicConfig,
    TopicType,
)
from rmqpull_broker.core.pulling.consumer_offsets import ResetRequest, invoke_reset
from rmqpull_broker.core.state.facts import QueuesTrimmed
from rmqpull_broker.testing import BrokerProcess, RunningBroker, Topics
from rmqpull_client.connection import Connection
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.grpc.channel import get_channel
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rpc import MESSAGING
from tests.harness.server_kinds import REQUESTS

if TYPE_CHECKING:
    from google.protobuf.message import Message as ProtobufMessage

TIMEOUT_MS = 60_000
ROUTES_TOLD_MS = 500
"""How often clients of the remoting protocol ask for routes."""


class Server(Protocol):
    """A server that tests share. Each of them has topics of its own."""

    @property
    def options(self) -> Mapping[str, str]:
        """The options of source and sink that reach the server."""

    def send(self, topic: str, *messages: Message | bytes) -> None:
        """Sends messages one after the other, to the queues in turn. Returns when all of them can be read."""

    def bounds(self, topic: str) -> dict[MessageQueue, Bounds]:
        """Returns the min and max offset of each queue of a topic."""

    def consumer_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """Returns a group's consumer offsets, on the queues that have one."""


class HeldPulls(Protocol):
    """Pulls that a server does not answer."""

    def are_waiting(self) -> bool:
        """Whether a pull waits."""

    def release(self) -> None:
        """Lets the server answer again."""


class HalfMessage(Protocol):
    """A message whose transaction has not ended."""

    def commit(self) -> None:
        """Makes it readable, and returns when it is."""

    def roll_back(self) -> None:
        """Drops it."""


class ManagedServer(Server, Protocol):
    """A server of one test, which also manages topics."""

    @property
    def broker(self) -> RunningBroker:
        """The broker in this process, for faults, its clock and its state. Only EmbeddedServer has one."""

    def wait_until_readable(self) -> None:
        """Returns when all that clients have sent can be read. Apache's broker acknowledges it a little earlier."""

    def messages(self, topic: str) -> dict[MessageQueue, list[StoredMessage]]:
        """Returns the messages of each queue of a topic."""

    def create_topic(self, name: str, queues: int = 1, topic_type: TopicType = TopicType.NORMAL) -> None:
        """Creates a topic, or changes its number of queues."""

    def create_topic_without_writes(self, name: str) -> None:
        """Creates a topic of one queue that can only be read."""

    def delete_topic(self, name: str) -> None:
        """Deletes a topic with its messages."""

    def trim(self, topic: str, min_offset: int) -> None:
        """Deletes the messages of queue 0 below an offset, as retention does."""

    def now_ms(self) -> int:
        """Returns the server's time."""

    def skip_time(self, ms: int) -> None:
        """Moves the server's clock, if the test has asked for one that can be moved. Otherwise time passes anyway."""

    def groups(self) -> set[str]:
        """Returns the consumer groups that exist."""

    def reset_to_the_begin(self, group: str, topic: str) -> None:
        """Resets the consumer offsets of a group, as administrators do."""

    def hold_pulls(self) -> HeldPulls:
        """Leaves pulls without a response."""

    def begin(self, topic: str, body: bytes) -> HalfMessage:
        """Sends a half message to a topic of one queue."""


class StartServer(Protocol):
    """Starts a server with topics on all of its brokers.

    ``lists_topics`` is for tests that need a list of topics from the server, ``is_trimmed`` for tests that call
    :meth:`ManagedServer.trim`, and ``moves_clock`` for :meth:`ManagedServer.skip_time`.
    """

    def __call__(
        self,
        topics: Topics,
        *,
        brokers: tuple[str, ...] = ...,
        lists_topics: bool = ...,
        is_trimmed: bool = ...,
        moves_clock: bool = ...,
    ) -> ManagedServer: ...


class CrashingServer(Server, Protocol):
    """A server that a test kills and starts again."""

    def kill(self) -> None:
        """Kills the broker with SIGKILL."""

    def start(self) -> None:
        """Starts the killed broker with its messages."""

    def start_empty(self) -> None:
        """Starts the killed broker with its topics and without its messages."""


class StartCrashingServer(Protocol):
    """Starts a server with topics."""

    def __call__(self, topics: Topics) -> CrashingServer: ...


def _make_options(broker: RunningBroker | BrokerProcess) -> Mapping[str, str]:
    """Returns the options that reach a broker: by the remoting protocol if it speaks it."""
    if not broker.remoting_addresses:
        return {"endpoints": broker.endpoints}
    return {"nameServers": broker.remoting_addresses[0], "pollNameServerInterval": str(ROUTES_TOLD_MS)}


@dataclass(frozen=True)
class EmbeddedServer:
    """A broker of this project in this process."""

    broker: RunningBroker

    @property
    def options(self) -> Mapping[str, str]:
        return _make_options(self.broker)

    def send(self, topic: str, *messages: Message | bytes) -> None:
        self.broker.send(topic, *messages)

    def bounds(self, topic: str) -> dict[MessageQueue, Bounds]:
        return self.broker.bounds(topic)

    def consumer_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        return self.broker.consumer_offsets(group, topic)

    def wait_until_readable(self) -> None:
        """Does nothing: what this broker has acknowledged can be read."""

    def messages(self, topic: str) -> dict[MessageQueue, list[StoredMessage]]:
        rows = iter(self.broker.messages(topic))
        return {queue: list(islice(rows, end - begin)) for queue, (begin, end) in self.bounds(topic).items()}

    def create_topic(self, name: str, queues: int = 1, topic_type: TopicType = TopicType.NORMAL) -> None:
        self.broker.create_topic(name, queues, topic_type)

    def create_topic_without_writes(self, name: str) -> None:
        topic = TopicConfig(name, 1, 1, perm=PERM_READ, creation_id="x")
        self.broker.change(lambda draft: put_topic(draft, topic))

    def delete_topic(self, name: str) -> None:
        self.broker.delete_topic(name)

    def trim(self, topic: str, min_offset: int) -> None:
        (broker_name,) = {queue.broker_name for queue in self.bounds(topic)}
        trimmed = QueuesTrimmed(((MessageQueue(topic, broker_name, 0), min_offset),))
        self.broker.change(lambda draft: draft.add(trimmed))

    def now_ms(self) -> int:
        return self.broker.clock.now_ms()

    def skip_time(self, ms: int) -> None:
        self.broker.clock.advance(ms)

    def groups(self) -> set[str]:
        return self.broker.look(lambda state: set(state.groups))

    def reset_to_the_begin(self, group: str, topic: str) -> None:
        request = ResetRequest(group, topic, timestamp_ms=0)
        self.broker.change(lambda draft: invoke_reset(draft, request))

    def hold_pulls(self) -> HeldPulls:
        return _HeldByRules(
            self.broker, [self.broker.faults.hold(name, times=None) for name in REQUESTS["pull"].values()]
        )

    def begin(self, topic: str, body: bytes) -> HalfMessage:
        resource = v2.Resource(name=topic)
        system = v2.SystemProperties(message_id=body.decode(), message_type=v2.MessageType.TRANSACTION)
        half = v2.Message(topic=resource, body=body, system_properties=system)
        sent = _call(self.broker.endpoints, "SendMessage", service.SendMessageRequest(messages=[half])).entries[0]
        ids = {"message_id": sent.message_id, "transaction_id": sent.transaction_id}
        return _HalfOverGrpc(self.broker.endpoints, service.EndTransactionRequest(topic=resource, **ids))


@dataclass(frozen=True)
class _HeldByRules:
    broker: RunningBroker
    rules: Sequence[int]

    def are_waiting(self) -> bool:
        return any(self.broker.faults.kept(rule) for rule in self.rules)

    def release(self) -> None:
        for rule in self.rules:
            self.broker.faults.remove(rule)


@dataclass(frozen=True)
class _HalfOverGrpc:
    endpoints: str
    ending: service.EndTransactionRequest

    def commit(self) -> None:
        self._end(v2.TransactionResolution.COMMIT)

    def roll_back(self) -> None:
        self._end(v2.TransactionResolution.ROLLBACK)

    def _end(self, resolution: v2.TransactionResolution) -> None:
        self.ending.resolution = resolution
        _call(self.endpoints, "EndTransaction", self.ending)


@dataclass(frozen=True)
class ProcessServer:
    """A broker of this project as a process. Sends use the standard protocol, which every broker serves."""

    process: BrokerProcess

    @property
    def options(self) -> Mapping[str, str]:
        return _make_options(self.process)

    def send(self, topic: str, *messages: Message | bytes) -> None:
        for message in messages:
            request = service.SendMessageRequest(messages=[_make_message(topic, message)])
            _call(self.process.endpoints, "SendMessage", request)

    def bounds(self, topic: str) -> dict[MessageQueue, Bounds]:
        found = connect(self._connection).query_bounds([topic])[topic].queues
        return {MessageQueue(*queue): Bounds(*bounds) for queue, bounds in found.items()}

    def consumer_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        client = connect(self._connection)
        found = client.get_consumer_offsets(group, list(client.query_bounds([topic])[topic].queues))
        return {MessageQueue(*queue): offset for queue, offset in found.items() if offset is not None}

    def kill(self) -> None:
        self.process.kill()

    def start(self) -> None:
        self.process.start()

    def start_empty(self) -> None:
        assert self.process.data_dir is not None, "without a folder, every start is empty"
        self.process.data_dir = Path(self.process.data_dir).with_name("other-data")
        self.process.start()

    @property
    def _connection(self) -> Connection:
        return Connection(self.process.endpoints, TIMEOUT_MS)


def _call(endpoints: str, method: str, request: ProtobufMessage) -> Any:
    response = get_channel(Connection(endpoints, TIMEOUT_MS)).call(MESSAGING.methods[method], request)
    assert response.status.code == v2.Code.OK, response.status
    return response


def _make_message(topic: str, message: Message | bytes) -> v2.Message:
    whole = Message(message, "") if isinstance(message, bytes) else message
    encoding = v2.Encoding.IDENTITY if whole.body_encoding is BodyEncoding.IDENTITY else v2.Encoding.GZIP
    system = v2.SystemProperties(
        message_id=whole.msg_id or "m",
        tag=whole.tags,
        keys=whole.keys,
        born_host=whole.born_host,
        body_encoding=encoding,
        message_group=whole.message_group,
        trace_context=whole.trace_context,
    )
    system.born_timestamp.FromMilliseconds(whole.born_timestamp_ms)
    made = v2.Message(topic=v2.Resource(name=topic), body=whole.body, system_properties=system)
    made.user_properties.update(whole.properties)
    return made
