"""Consumers that acknowledge, on a broker without a gRPC server whose clock the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.admin.topics import put_topic
from rmqpull_broker.core.clients.members import ClientChannel, ConsumerData, ConsumeType
from rmqpull_broker.core.clients.settings import ClientProfile
from rmqpull_broker.core.messages.columns import to_rows
from rmqpull_broker.core.model import GroupConfig, Message, MessageQueue, StoredMessage, TopicConfig, TopicType
from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.server.grpc.handlers.v2.acknowledging import (
    ack_message,
    change_invisible_duration,
    forward_message_to_dead_letter_queue,
)
from rmqpull_broker.server.grpc.handlers.v2.receiving import receive_message
from rmqpull_broker.server.runtime.timed_work import TimedWork
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc
from tests.harness.handlers import HandlerHarness
from tests.harness.waiting import until

TOPIC, GROUP = "orders", "readers"
RETRY_TOPIC = f"%RETRY%{GROUP}_{TOPIC}"


@dataclass(frozen=True)
class Received:
    """The answer to a ReceiveMessage: code and text of its status, and the messages."""

    code: str
    text: str
    messages: list[v2.Message]

    @property
    def bodies(self) -> list[str]:
        return [message.body.decode() for message in self.messages]

    @property
    def handles(self) -> list[str]:
        return [message.system_properties.receipt_handle for message in self.messages]

    @property
    def attempts(self) -> list[int]:
        return [message.system_properties.delivery_attempt for message in self.messages]


class PopHarness(HandlerHarness):
    """A HandlerHarness with the work that the clock starts, and with topic ``orders``. Group ``readers`` has the
    member "tester".
    """

    def __init__(self) -> None:
        super().__init__()
        number = iter(range(1_000_000))
        self.work = TimedWork(
            self.state, self.group_commit, self.clock, "store", lambda check: None, lambda: f"id-{next(number)}"
        )

    def _handle_stored(self, facts: list[Fact]) -> None:
        super()._handle_stored(facts)
        self.work.set_alarms()

    async def prepare(self, queues: int = 1, **group: Any) -> None:
        config = replace(GroupConfig(GROUP), **group)
        topic_type = TopicType.FIFO if config.consume_message_orderly else TopicType.NORMAL
        topic = TopicConfig(TOPIC, queues, queues, topic_type, creation_id="first")
        await self.group_commit.execute(lambda draft: put_topic(draft, topic))
        await self.group_commit.execute(lambda draft: put_group(draft, config))
        channel = ClientChannel("tester", "tester", "PYTHON", "5.1.2")
        consumer = ConsumerData(GROUP, (), ConsumeType.ACTIVELY)
        self.clients.introduce(ClientProfile(channel, "SIMPLE_CONSUMER", consumer=consumer), [config])

    async def send(self, *bodies: str, message_group: str | None = None, **fields: Any) -> None:
        messages = [
            Message(body.encode(), f"id-{body}", message_group=message_group, born_timestamp_ms=1, **fields)
            for body in bodies
        ]
        await self.group_commit.execute(
            lambda draft: self.service.sender.send(draft, TOPIC, messages, self.clock.wall_ms())
        )

    async def receive(
        self, count: int = 32, *, invisible_ms: int = 10_000, expression: str = "*", sql: bool = False, **fields: Any
    ) -> Received:
        poll_ms, left_ms = fields.pop("poll_ms", 5_000), fields.pop("remaining_ms", None)
        request = rpc.ReceiveMessageRequest(
            group=v2.Resource(name=fields.pop("group", GROUP)),
            message_queue=v2.MessageQueue(topic=v2.Resource(name=fields.pop("topic", TOPIC))),
            batch_size=count,
            filter_expression=v2.FilterExpression(
                type=v2.FilterType.SQL if sql else v2.FilterType.TAG, expression=expression
            ),
            **fields,
        )
        request.invisible_duration.FromMilliseconds(invisible_ms)
        if poll_ms is not None:
            request.long_polling_timeout.FromMilliseconds(poll_ms)
        caller = replace(self.caller(), remaining_ms=left_ms)
        parts = [part async for part in receive_message(self.service, request, caller)]
        status, messages = parts[0].status, [part.message for part in parts[1:-1]]
        assert parts[-1].HasField("delivery_timestamp")
        return Received(v2.Code.Name(status.code), status.message, messages)

    async def wait(self, receiving: Awaitable[Received]) -> asyncio.Task[Received]:
        """Starts a receive, and returns when it waits for messages."""
        task = asyncio.ensure_future(receiving)
        before = self.pops.waiting_count
        await until(lambda: task.done() or self.pops.waiting_count > before, "waits")
        assert not task.done(), task
        return task

    async def receive_nothing(self, **fields: Any) -> Received:
        """Receives until the time to wait is over."""
        task = await self.wait(self.receive(**fields))
        await self.advance(5_000)
        return await task

    async def ack(self, *handles: str, message_id: str = "id", client_id: str = "tester") -> list[str]:
        """Acknowledges, and returns the code of the answer, then those of its entries."""
        entries = [rpc.AckMessageEntry(message_id=message_id, receipt_handle=handle) for handle in handles]
        request = rpc.AckMessageRequest(group=v2.Resource(name=GROUP), topic=v2.Resource(name=TOPIC), entries=entries)
        response = await ack_message(self.service, request, self.caller(client_id))
        return [v2.Code.Name(each.code) for each in (response.status, *(entry.status for entry in response.entries))]

    async def change(self, handle: str, invisible_ms: int, message_id: str = "id") -> str:
        request = rpc.ChangeInvisibleDurationRequest(
            group=v2.Resource(name=GROUP),
            topic=v2.Resource(name=TOPIC),
            receipt_handle=handle,
            message_id=message_id,
        )
        request.invisible_duration.FromMilliseconds(invisible_ms)
        return (await change_invisible_duration(self.service, request, self.caller())).receipt_handle

    async def give_up(self, handle: str, message_id: str = "id") -> str:
        request = rpc.ForwardMessageToDeadLetterQueueRequest(
            group=v2.Resource(name=GROUP),
            topic=v2.Resource(name=TOPIC),
            receipt_handle=handle,
            message_id=message_id,
        )
        response = await forward_message_to_dead_letter_queue(self.service, request, self.caller())
        return v2.Code.Name(response.status.code)

    async def advance(self, ms: int) -> None:
        """Moves the clock, and returns when what is due is done."""
        self.clock.advance(ms)
        for _ in range(20):
            await asyncio.sleep(0)
            await self.group_commit.wait_until_idle()

    async def pass_time(self, seconds: int, step_s: int = 5) -> None:
        """Moves the clock in steps, so that all that falls due is done about at its time."""
        for _ in range(0, seconds, step_s):
            await self.advance(1_000 * step_s)

    def stored(self, topic: str) -> list[StoredMessage]:
        """Returns what queue 0 of a topic holds."""
        queue = MessageQueue(topic, "broker-a", 0)
        bounds = self.state.bounds(queue)
        return list(to_rows(self.state.store.read(queue, *bounds)))

    def lag(self, topic: str = TOPIC) -> int:
        queue = MessageQueue(topic, "broker-a", 0)
        return self.state.bounds(queue).max_offset - self.state.consumer_offsets.get((GROUP, queue), 0)


def run_pops(story: Callable[[PopHarness], Awaitable[None]], **prepared: Any) -> None:
    """Runs a test on a new harness."""

    async def run() -> None:
        broker = PopHarness()
        await broker.prepare(**prepared)
        await story(broker)

    asyncio.run(run())
