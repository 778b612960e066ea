"""A broker that serves in this process, a view of its parked pulls, and a stage on which time is told to pass."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import grpc
import pytest

from rmqpull_broker.assembly import new_topics, open_broker
from rmqpull_broker.config import Address, BrokerConfig, parse_topic
from rmqpull_broker.core.admin.fault_rules import FaultAction, FaultRule
from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.admin.topics import put_topic
from rmqpull_broker.core.messages.ids import MessageIds
from rmqpull_broker.core.model import GroupConfig, Message, MessageQueue, TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.pulling.parking import ParkedPull, ParkedPulls
from rmqpull_broker.core.sending.queue_selection import QueueSelector
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.server.app import BrokerServer
from rmqpull_broker.server.clients import Clients
from rmqpull_broker.server.clock import ClockMover, ManualClock
from rmqpull_broker.server.handlers.columns.pulling import pull_columns
from rmqpull_broker.server.handlers.v2.pulling import pull_message
from rmqpull_broker.server.runtime.faults import Faults
from rmqpull_broker.server.runtime.group_commit import GroupCommit
from rmqpull_broker.server.runtime.metrics import Metrics
from rmqpull_broker.server.runtime.parking import Parking
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.runtime.stage_keeper import StageKeeper
from rmqpull_broker.store.memory_storage import MemoryStorage
from rmqpull_broker.store.queues.queues import ConsumeQueues
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto import rpc
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.waiting import until

if TYPE_CHECKING:
    from tests.broker.conftest import Client, Connect, Conversation

WAIT_S = 60

METHODS = {
    method.request.DESCRIPTOR.full_name: method
    for service in (rpc.MESSAGING, rpc.COLUMNS)
    for method in service.methods.values()
}


class Parkings:
    """Which pulls are parked and which have left: what a test waits for instead of letting time pass."""

    def __init__(self) -> None:
        self.entered: queue.Queue[ParkedPull] = queue.Queue()
        self.left: queue.Queue[ParkedPull] = queue.Queue()

    def await_parked(self) -> ParkedPull:
        return self.entered.get(timeout=WAIT_S)

    def await_left(self) -> ParkedPull:
        return self.left.get(timeout=WAIT_S)


class Edge:
    """What handlers work with, without gRPC: a broker whose clock stands still. Its state may be changed at will."""

    def __init__(self, broker_names: Sequence[str] = ("broker-a",), properties: BrokerProperties | None = None) -> None:
        self.clock = ManualClock(1_000_000)
        self.state = BrokerState(ConsumeQueues(), broker_names, properties)
        parking = Parking(self.state.store, self.clock)
        self.group_commit = GroupCommit(self.state, MemoryStorage(), parking.wake_for)
        self.clients = Clients(self.clock)
        sender = Sender(QueueSelector(), MessageIds(bytes(6), 1), "127.0.0.1:8081")
        self.service = Service(
            self.state,
            self.group_commit,
            parking,
            sender,
            self.clock,
            Faults(self.clock),
            Metrics(),
            ("127.0.0.1", 8081),
            self.clients,
            ClockMover(self.clock, self.group_commit.wait_until_idle),
            StageKeeper(self.state, self.group_commit, self.clock, sender),
        )

    @staticmethod
    def caller(client_id: str = "tester") -> Caller:
        return Caller("127.0.0.1", client_id, None, "PYTHON", "5.1.2")


@pytest.fixture
def new_edge() -> type[Edge]:
    return Edge


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker(topics={"orders": 2, "single": 1}) as running:
        yield running


@pytest.fixture
def client(broker: RunningBroker, connect: Connect) -> Client:
    return connect(broker.endpoints)


@pytest.fixture
def parkings(monkeypatch: pytest.MonkeyPatch) -> Parkings:
    """Reports every pull that any broker of this process parks."""
    seen = Parkings()
    park, remove = ParkedPulls.park, ParkedPulls.remove

    def park_and_tell(holding: ParkedPulls, pull: ParkedPull, now_ms: int) -> int:
        ticket = park(holding, pull, now_ms)
        seen.entered.put(pull)
        return ticket

    def remove_and_tell(holding: ParkedPulls, ticket: int) -> None:
        pull = holding._pulls.get(ticket)
        remove(holding, ticket)
        if pull is not None:
            seen.left.put(pull)

    monkeypatch.setattr(ParkedPulls, "park", park_and_tell)
    monkeypatch.setattr(ParkedPulls, "remove", remove_and_tell)
    return seen


class SettingsOf(Protocol):
    def __call__(
        self, client_type: str, *topics: str, group: str = ..., expression: v2.FilterExpression = ...
    ) -> Any: ...


@pytest.fixture
def settings_of() -> SettingsOf:
    """Settings as a client sends them: those of a producer without a group, of a consumer with one."""

    def made(
        client_type: str, *topics: str, group: str = "", expression: v2.FilterExpression | None = None
    ) -> v2.Settings:
        resources = [v2.Resource(name=topic) for topic in topics]
        if not group:
            return v2.Settings(client_type=client_type, publishing=v2.Publishing(topics=resources))
        entries = [v2.SubscriptionEntry(topic=resource, expression=expression) for resource in resources]
        subscription = v2.Subscription(group=v2.Resource(name=group), subscriptions=entries)
        return v2.Settings(client_type=client_type, subscription=subscription)

    return made


Introduce = Callable[..., "Conversation"]


@pytest.fixture
def introduce(settings_of: SettingsOf) -> Iterator[Introduce]:
    """Lets a client send settings and hear the server's; its Telemetry stream stays open until the test ends."""
    with ExitStack() as conversations:

        def converse(client: Client, client_type: str, *topics: str, group: str = "") -> Conversation:
            conversation = client.converse("Telemetry")
            conversations.callback(conversation.cancel)
            conversation.say(service.TelemetryCommand(settings=settings_of(client_type, *topics, group=group)))
            assert conversation.hear().status.code == v2.Code.OK
            return conversation

        yield converse


class Stage:
    """A broker on a manual clock, with a client beside it."""

    def __init__(self, server: BrokerServer, clock: ManualClock, channel: grpc.aio.Channel) -> None:
        self.server = server
        self.faults = server.faults
        self.metrics = server.metrics
        self.clock = clock
        self.channel = channel

    def add(self, name: str, action: FaultAction, **options: Any) -> int:
        return self.faults.add(FaultRule(name, action, **options))

    def call(self, request: Any, client_id: str = "tester", timeout: float | None = 60) -> asyncio.Task[list[Any]]:
        """Starts a call; its answer is the list of responses."""

        async def answer() -> list[Any]:
            method = METHODS[request.DESCRIPTOR.full_name]
            call = self.channel.unary_stream if method.server_streaming else self.channel.unary_unary
            stub: Any = call(method.path, method.request.SerializeToString, method.response.FromString)
            answered = stub(request, timeout=timeout, metadata=(("x-mq-client-id", client_id),))
            return [response async for response in answered] if method.server_streaming else [await answered]

        return asyncio.ensure_future(answer())

    async def code(self, request: Any, client_id: str = "tester") -> str:
        first, *_ = await self.call(request, client_id)
        return v2.Code.Name(first.status.code)

    async def kept(self, rule_id: int, calls: int = 1) -> None:
        """Returns when a rule keeps that many calls back."""
        await until(lambda: self.faults.count_waiting(rule_id) == calls, f"{calls} calls kept back")

    async def parked(self, pulls: int) -> None:
        """Returns when that many pulls are parked."""
        await until(lambda: len(self.server._parking) == pulls, f"{pulls} pulls parked")


@asynccontextmanager
async def staged() -> AsyncIterator[Stage]:
    clock = ManualClock(1_700_000_000_000)
    config = BrokerConfig(Address("127.0.0.1", 0), [parse_topic("orders:2")])
    server = open_broker(config, lambda _: clock)
    try:
        port = await server.start(*config.listen, new_topics(config))
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", [("grpc.enable_http_proxy", 0)]) as channel:
            yield Stage(server, clock, channel)
    finally:
        await server.stop()


Play = Callable[[Callable[[Stage], Awaitable[None]]], None]


@pytest.fixture
def play() -> Play:
    """Plays a story to a broker on a stage of its own."""

    def play(story: Callable[[Stage], Awaitable[None]]) -> None:
        async def on_stage() -> None:
            async with staged() as stage:
                await story(stage)

        asyncio.run(on_stage())

    return play


Pulled = tuple[str, str, int, list[int]]
QUEUE = MessageQueue("orders", "broker-a", 0)
ORDERS = TopicConfig("orders", 2, 2, creation_id="first")


class Scene:
    """A broker with the topic ``orders`` and the group ``readers``, and pulls of both protocols."""

    def __init__(self, edge: Edge) -> None:
        self.edge = edge
        self.state = edge.state

    async def run(self, command: Callable[[Draft], object]) -> None:
        await self.edge.group_commit.execute(command)

    async def send(self, *tags: str) -> None:
        """To queue 0 of broker-a, since the topic has but one writable queue."""
        messages = [Message(b"x", "id", tags=tag) for tag in tags]
        await self.run(lambda draft: self.edge.service.sender.send(draft, "orders", messages, 1_000))

    async def standard(self, offset: int, wait_ms: int = 0, group: str = "readers", **options: Any) -> Pulled:
        """Code, status message and next offset of a PullMessage, with the offsets of its messages."""
        queue = options.get("queue", QUEUE)
        request = service.PullMessageRequest(
            group=v2.Resource(name=group),
            message_queue=v2.MessageQueue(
                topic=v2.Resource(name=queue.topic), id=queue.queue_id, broker=v2.Broker(name=queue.broker_name)
            ),
            offset=offset,
            batch_size=32,
            filter_expression=v2.FilterExpression(expression=options.get("tags", "*")),
        )
        request.long_polling_timeout.FromMilliseconds(wait_ms)
        parts = [part async for part in pull_message(self.edge.service, request, self.edge.caller())]
        status, found = parts[0].status, [part.message.system_properties.queue_offset for part in parts[1:-1]]
        return v2.Code.Name(status.code), status.message, parts[-1].next_offset, found

    async def columns(self, offset: int, wait_ms: int = 0, **fields: Any) -> list[tuple[Any, ...]]:
        """Status, rows and next offset of each queue of a PullColumns of ``orders``' queue 0."""
        request_fields: dict[str, Any] = {name: fields.pop(name) for name in ("suspend",) if name in fields}
        if "sql" in fields:
            expression = v2.FilterExpression(type=v2.FilterType.SQL, expression=fields.pop("sql"))
            request_fields["filter_expression"] = expression
        queue = v1.Queue(topic="orders", broker_name="broker-a", queue_id=0)
        request = v1.PullColumnsRequest(
            group="readers",
            queues=[v1.QueuePull(queue=queue, offset=offset, **fields)],
            long_polling_timeout_ms=wait_ms,
            **request_fields,
        )
        answer = await pull_columns(self.edge.service, request, self.edge.caller())
        return [(v1.PullStatus.Name(q.pull_status), q.row_count, q.next_offset) for q in answer.response.queues]

    async def held(self, pull: Awaitable[Any]) -> asyncio.Task[Any]:
        """Starts a pull and returns when it is held."""
        task = asyncio.ensure_future(pull)
        before = len(self.edge.service.parking)
        await until(lambda: task.done() or len(self.edge.service.parking) > before, "held")
        assert not task.done(), task
        return task

    async def is_still_held(self, task: asyncio.Task[Any]) -> bool:
        for _ in range(10):
            await asyncio.sleep(0)
            await self.edge.group_commit.wait_until_idle()
        return not task.done()

    @property
    def offsets(self) -> dict[Any, int]:
        return self.state.consumer_offsets


Story = Callable[[Scene], Awaitable[None]]
Perform = Callable[[Story], None]


@pytest.fixture
def perform(new_edge: type[Edge]) -> Perform:
    def on_scene(story: Story) -> None:
        async def plot() -> None:
            scene = Scene(new_edge())
            await scene.run(lambda draft: put_topic(draft, replace(ORDERS, write_queue_nums=1)))
            await scene.run(lambda draft: put_group(draft, GroupConfig("readers")))
            await story(scene)

        asyncio.run(plot())

    return on_scene


@pytest.fixture
def new_scene() -> type[Scene]:
    return Scene
