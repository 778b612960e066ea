"""A system clock that a test sets, and a broker that runs by it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from rmqpull_broker.assembly import make_topics, open_broker
from rmqpull_broker.config import BrokerConfig
from rmqpull_broker.config_values import Address, parse_topic
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.popping.request import InitMode, PopRequest, PopResult
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.server.app import BrokerServer
from rmqpull_broker.server.clock import Clock, ClockMover, ManualClock, SystemClock

QUEUE = MessageQueue("orders", "broker-a", 0)
NS_PER_MS = 1_000_000


class SettableClock:
    """The sources of a SystemClock. Time passes when the test lets it, and the wall time is what the test sets."""

    def __init__(self, now_ms: int) -> None:
        self._passing = ManualClock()
        self._ahead_ms = now_ms

    @property
    def now_ms(self) -> int:
        return self._ahead_ms + self._passing.passing_ms()

    def set(self, now_ms: int) -> None:
        self._ahead_ms = now_ms - self._passing.passing_ms()

    def make_clock(self) -> SystemClock:
        return SystemClock(
            lambda: self.now_ms * NS_PER_MS,
            lambda: self._passing.passing_ms() * NS_PER_MS,
            lambda delay_s, callback: self._passing.call_at(
                self._passing.passing_ms() + round(delay_s * 1000), callback
            ),
        )

    async def let_pass(self, server: BrokerServer, ms: int) -> None:
        """Lets time pass, and the broker do everything at its time."""
        await ClockMover(self._passing, server._wait_until_idle).advance(ms)


class LivingBroker:
    """A broker with topic ``orders`` of one queue, and what tests ask it to do at its present time."""

    def __init__(self, server: BrokerServer, clock: SettableClock | None = None) -> None:
        self.server = server
        self.clock = clock

    async def send(self, body: bytes, **system: str) -> None:
        await self.send_message(Message(body, body.decode(), system_properties=system))

    async def send_message(self, message: Message, topic: str = "orders") -> None:
        now_ms = self.server.clock.wall_ms()
        await self.server.group_commit.execute(lambda draft: self.server.sender.send(draft, topic, [message], now_ms))

    async def pop(
        self, group: str = "readers", *, in_order: bool = False, invisible_ms: int = 10_000, poll_ms: int = 0
    ) -> PopResult:
        request = PopRequest(
            group, "orders", "broker-a", 0, invisible_ms=invisible_ms, in_order=in_order, init_mode=InitMode.MIN
        )
        return await self.server._pops.pop(request, poll_ms)

    async def let_pass(self, ms: int) -> None:
        assert self.clock is not None
        await self.clock.let_pass(self.server, ms)

    def rows(self, queue: MessageQueue = QUEUE) -> Sequence[StoredMessage]:
        store = self.server.state.store
        return columns.to_rows(store.read(queue, *store.bounds(queue)))

    def bodies(self, queue: MessageQueue = QUEUE) -> list[bytes]:
        return [row.message.body for row in self.rows(queue)]


def remove_snapshots(data_dir: Path) -> None:
    for snapshot in data_dir.glob("*.snapshot"):
        snapshot.unlink()


@asynccontextmanager
async def living_broker(
    clock: SettableClock | Clock, data_dir: Path, *, keeps_snapshots: bool = True
) -> AsyncIterator[LivingBroker]:
    """Runs a broker. Without ``keeps_snapshots``, the next start has to replay the whole log."""
    topics = [parse_topic("orders:1:MIXED"), parse_topic("bills:1")]
    properties = BrokerProperties(enable_mixed_message_type=True)
    config = BrokerConfig(Address("127.0.0.1", 0), topics, str(data_dir), properties=properties)
    settable = clock if isinstance(clock, SettableClock) else None
    made = clock.make_clock() if isinstance(clock, SettableClock) else clock
    server = open_broker(config, lambda _: made)
    try:
        await server.start(*config.listen, make_topics(config))
        yield LivingBroker(server, settable)
    finally:
        await server.stop()
        if not keeps_snapshots:
            remove_snapshots(data_dir)
