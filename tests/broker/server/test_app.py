"""The whole broker on a port, with a manual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rmqpull_broker.assembly import open_broker
from rmqpull_broker.config import BrokerConfig
from rmqpull_broker.config_values import Address
from rmqpull_broker.core.admin.topics import create_topic
from rmqpull_broker.core.clients.members import ClientChannel
from rmqpull_broker.core.clients.settings import ClientProfile
from rmqpull_broker.core.filters.message_filter import _compile
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage, TopicConfig, TopicType
from rmqpull_broker.core.sending.half_messages import make_half_message
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import RowsStored
from rmqpull_broker.server.app import BrokerServer
from rmqpull_broker.server.clock import ManualClock
from rmqpull_broker.server.remoting.ports import RemotingAddress
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from tests.harness.remoting_member import RemotingMember
from tests.harness.steps import run_steps

TRANSFERS = TopicConfig("transfers", 1, 1, TopicType.TRANSACTION, "id")
PRODUCER = ClientProfile(ClientChannel("ann", "ann"), "PRODUCER", ("transfers",))


def play(story: Callable[[BrokerServer], Awaitable[None]]) -> None:
    async def run() -> None:
        broker = open_broker(BrokerConfig(Address("127.0.0.1", 0)), lambda _: ManualClock(1_000_000))
        await broker.start("127.0.0.1", 0, [TRANSFERS])
        await story(broker)
        await broker.stop()

    asyncio.run(run())


def store_half_message(draft: Draft) -> None:
    message = Message(b"a body", "an id", transactional=True, system_properties={"PGROUP": "transfers"})
    queue, waiting = make_half_message(draft, MessageQueue("transfers", "broker-a", 0), message)
    draft.add(RowsStored(queue, (StoredMessage(waiting, 0, 1_000_000, "store"),)))


def test_a_half_message_without_connected_producers_waits() -> None:
    async def story(broker: BrokerServer) -> None:
        await broker.group_commit.execute(store_half_message)
        await broker.clock_mover.advance(60_000)
        assert len(broker.state.halves) == 1

    play(story)


def test_silent_clients_expire_by_the_brokers_clock() -> None:
    async def story(broker: BrokerServer) -> None:
        broker.clients.introduce(PRODUCER, [])
        await broker.clock_mover.advance(130_000)
        assert broker.clients.list_clients() == []

    play(story)


def test_a_group_that_holds_a_queue_lock_gets_no_retries() -> None:
    async def story(broker: BrokerServer) -> None:
        retries = TopicConfig("%RETRY%readers", 1, 1)
        await broker.group_commit.execute(lambda draft: create_topic(draft, retries))
        queue = MessageQueue("orders", "broker-a", 0)
        run_steps(broker.clients.locks.lock_in_steps("readers", "ann", [queue], 1_000_000))
        bad = [Message(b"bad", "an id")]

        async def topic_after(ms: int) -> str:
            now_ms = await broker.clock_mover.advance(ms)
            sent = await broker.group_commit.execute(lambda d: broker.sender.send(d, retries.name, bad, now_ms))
            return sent[0].queue.topic

        assert await topic_after(60_000) == "%DLQ%readers"
        assert await topic_after(1) == "%RETRY%readers"

    play(story)


def test_what_a_pull_has_left_is_forgotten_and_made_again() -> None:
    fields = {"consumerGroup": "readers", "topic": "transfers", "queueId": 0, "queueOffset": 0, "maxMsgNums": 1}
    own_filter = {"sysFlag": 4, "subscription": "a > 1", "expressionType": "SQL92"}
    others = {"commitOffset": 0, "suspendTimeoutMillis": 0, "subVersion": 0}

    async def run() -> None:
        broker = open_broker(BrokerConfig(Address("127.0.0.1", 0)), lambda _: ManualClock(1_000_000))
        await broker.start("127.0.0.1", 0, [TRANSFERS], RemotingAddress([("127.0.0.1", 0)]))

        def pull() -> int:
            with RemotingMember(broker.remoting_addresses[0]) as member:
                return member.call(RequestCode.PULL_MESSAGE, {**fields, **own_filter, **others}).code

        assert broker._remoting is not None
        assert broker._remoting._service is not None
        verdicts = broker._remoting._service.standing_verdicts
        await asyncio.to_thread(pull)  # creates the group, so its verdict is about it alone
        for _ in range(2):
            assert await asyncio.to_thread(pull) == ResponseCode.PULL_NOT_FOUND
            assert (len(verdicts), _compile.cache_info().currsize > 0) == (1, True)
            broker.forget()
            assert (len(verdicts), _compile.cache_info().currsize) == (0, 0)
        await broker.stop()

    asyncio.run(run())
