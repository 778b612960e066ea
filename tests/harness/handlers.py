"""Handlers without gRPC: tests call them as functions, with a clock that they move."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.admin.topics import put_topic
from rmqpull_broker.core.messages.ids import MessageIds
from rmqpull_broker.core.model import GroupConfig, Message, MessageQueue, TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.sending.queue_selection import QueueSelector
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.server.clients import Clients
from rmqpull_broker.server.clock import ClockMover, ManualClock
from rmqpull_broker.server.fault_names import check_names
from rmqpull_broker.server.grpc.handlers.columns.pulling import pull_columns
from rmqpull_broker.server.grpc.handlers.v2.pulling import pull_message
from rmqpull_broker.server.runtime.faults import Faults
from rmqpull_broker.server.runtime.group_commit import GroupCommit
from rmqpull_broker.server.runtime.metrics import Metrics
from rmqpull_broker.server.runtime.parking import PullParker
from rmqpull_broker.server.runtime.pops import Pops
from rmqpull_broker.server.runtime.renewer import Renewer
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.runtime.stage_keeper import StageKeeper
from rmqpull_broker.server.runtime.unstored_offsets import UnstoredOffsets
from rmqpull_broker.store.disk_storage import DiskStorage
from rmqpull_broker.store.memory_storage import MemoryStorage
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.waiting import until


class HandlerHarness:
    """A broker that has no gRPC server. Tests call handlers with ``service`` and ``caller()``, and change ``state``.

    With a ``storage`` it recovers what that holds.
    """

    def __init__(
        self,
        broker_names: Sequence[str] = ("broker-a",),
        properties: BrokerProperties | None = None,
        storage: DiskStorage | None = None,
    ) -> None:
        self.clock = ManualClock(1_000_000)
        self.state = BrokerState(ConsumeQueues() if storage is None else storage.store, broker_names, properties)
        if storage is not None:
            storage.recover(self.state)
        parker = PullParker(self.state.store, self.clock)
        self.group_commit = GroupCommit(self.state, storage or MemoryStorage(), self._handle_stored)
        self.parker = parker
        self.metrics = Metrics()
        self.pops = Pops(self.state, self.group_commit, self.clock, draw=lambda count: 1, metrics=self.metrics)
        self.clients = Clients(self.clock)
        self.renewer = Renewer(
            self.pops,
            self.clock,
            lambda holder: self.clients.is_member(*holder),
            self.state.find_group,
        )
        sender = Sender(QueueSelector(), MessageIds(bytes(6), 1), "127.0.0.1:8081")
        self.service = Service(
            state=self.state,
            group_commit=self.group_commit,
            parker=parker,
            sender=sender,
            clock=self.clock,
            faults=Faults(self.clock, check_names),
            metrics=self.metrics,
            endpoints=("127.0.0.1", 8081),
            clients=self.clients,
            clock_mover=ClockMover(self.clock, self.group_commit.wait_until_idle),
            stage_keeper=StageKeeper(self.state, self.group_commit, self.clock, sender),
            unstored_offsets=UnstoredOffsets(self.state, self.group_commit),
            pops=self.pops,
            renewer=self.renewer,
        )

    def _handle_stored(self, facts: list[Fact]) -> None:
        self.metrics.count_stored(facts)
        self.parker.wake_for(facts)
        self.pops.wake_for(facts)

    @staticmethod
    def caller(client_id: str = "tester") -> Caller:
        return Caller("127.0.0.1:5555", client_id, None, "PYTHON", "5.1.2")


Pulled = tuple[str, str, int, list[int]]
QUEUE = MessageQueue("orders", "broker-a", 0)
ORDERS = TopicConfig("orders", 2, 2, creation_id="first")


class PullHandlerHarness:
    """A HandlerHarness with shortcuts for sends and for the pulls of both protocols."""

    def __init__(self, handlers: HandlerHarness) -> None:
        self.handlers = handlers
        self.state = handlers.state

    async def run(self, command: Callable[[Draft], object]) -> None:
        await self.handlers.group_commit.execute(command)

    async def send(self, *tags: str) -> None:
        """Sends to queue 0 of broker-a, the only writable queue."""
        messages = [Message(b"x", "id", tags=tag) for tag in tags]
        await self.run(lambda draft: self.handlers.service.sender.send(draft, "orders", messages, 1_000))

    async def pull_messages(self, offset: int, wait_ms: int = 0, group: str = "readers", **options: Any) -> Pulled:
        """Returns code, status message and next offset of a PullMessage, and the offsets of its messages."""
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
        parts = [part async for part in pull_message(self.handlers.service, request, self.handlers.caller())]
        status, found = parts[0].status, [part.message.system_properties.queue_offset for part in parts[1:-1]]
        return v2.Code.Name(status.code), status.message, parts[-1].next_offset, found

    async def pull_columns(self, offset: int, wait_ms: int = 0, **fields: Any) -> list[tuple[Any, ...]]:
        """Returns status, number of rows and next offset of a PullColumns of queue 0."""
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
        answer = await pull_columns(self.handlers.service, request, self.handlers.caller())
        return [(v1.PullStatus.Name(q.pull_status), q.row_count, q.next_offset) for q in answer.response.queues]

    async def park(self, pull: Awaitable[Any]) -> asyncio.Task[Any]:
        """Starts a pull and returns when it is parked."""
        task = asyncio.ensure_future(pull)
        before = len(self.handlers.service.parker)
        await until(lambda: task.done() or len(self.handlers.service.parker) > before, "parked")
        assert not task.done(), task
        return task

    async def is_parked(self, task: asyncio.Task[Any]) -> bool:
        for _ in range(10):
            await asyncio.sleep(0)
            await self.handlers.group_commit.wait_until_idle()
        return not task.done()

    @property
    def offsets(self) -> Mapping[Any, int]:
        return self.state.consumer_offsets


def run_on_handlers(story: Callable[[PullHandlerHarness], Awaitable[None]]) -> None:
    """Runs a test on a new harness, with topic ``orders`` and group ``readers``."""

    async def run() -> None:
        broker = PullHandlerHarness(HandlerHarness())
        await broker.run(lambda draft: put_topic(draft, replace(ORDERS, write_queue_nums=1)))
        await broker.run(lambda draft: put_group(draft, GroupConfig("readers")))
        await story(broker)

    asyncio.run(run())
