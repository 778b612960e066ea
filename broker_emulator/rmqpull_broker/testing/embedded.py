"""A broker inside a test's own process: ``with running_broker(topics={"orders": 8}) as broker: …``.

The broker serves on a thread of its own; everything here may be called from any other thread.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal, TypeVar

from rmqpull_broker.assembly import new_topics, open_broker
from rmqpull_broker.config import BROKER_NAMES, Address, BrokerConfig, ClockSpec, TopicSpec, parse_extensions
from rmqpull_broker.core.admin.fault_rules import FaultAction, FaultReport, FaultRule
from rmqpull_broker.core.admin.topics import delete_topic, put_topic
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Bounds, Message, MessageQueue, StoredMessage, TopicConfig, TopicType
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.server.app import BrokerServer

T = TypeVar("T")
Topics = Mapping[str, int | tuple[int, TopicType]]
"""Topics by name, each with its number of queues, or with that and its type."""


class _Loop:
    """The event loop of a broker, as other threads see it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the loop and waits for what it gives or raises."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def call(self, work: Callable[[], T]) -> T:
        """Runs a function on the loop and waits for what it gives or raises."""

        async def call() -> T:
            return work()

        return self.run(call())


class BrokerClock:
    """The time of a broker that was started with ``clock="manual"``."""

    def __init__(self, server: BrokerServer, loop: _Loop) -> None:
        self._server = server
        self._loop = loop

    def now_ms(self) -> int:
        """The broker's time in milliseconds since the epoch."""
        return self._loop.call(self._server.clock_mover.now_ms)

    def advance(self, ms: int = 0, *, seconds: float = 0, minutes: float = 0, hours: float = 0) -> int:
        """Lets time pass and gives the broker's new time; when it returns, all that fell due meanwhile has been done.

        Raises BadRequest when the broker follows the system's clock.
        """
        passed = timedelta(milliseconds=ms, seconds=seconds, minutes=minutes, hours=hours)
        return self._loop.run(self._server.clock_mover.advance(passed // timedelta(milliseconds=1)))


class BrokerFaults:
    """Calls that are to go wrong. Each method adds a rule for the next ``times`` calls of an RPC, None for all of them,
    narrowed by ``topic``, ``queue_id``, ``broker_name`` and ``client_id``, and gives the rule's id.

    With ``after=True`` the command is done and only its answer goes wrong. All raise BadRequest for rules that make no
    sense.
    """

    def __init__(self, server: BrokerServer, loop: _Loop) -> None:
        self._faults = server.faults
        self._loop = loop

    def fail(
        self, rpc: str, code: str = "INTERNAL_SERVER_ERROR", message: str = "", *, times: int | None = 1, **where: Any
    ) -> int:
        """Answers with a code of ``apache.rocketmq.v2``."""
        return self._add(FaultRule(rpc, FaultAction.FAIL, times, code=code, message=message, **where))

    def delay(self, rpc: str, ms: int, *, times: int | None = 1, **where: Any) -> int:
        """Answers later, by the broker's clock."""
        return self._add(FaultRule(rpc, FaultAction.DELAY, times, delay_ms=ms, **where))

    def drop(self, rpc: str, *, times: int | None = 1, **where: Any) -> int:
        """Never answers: the caller's deadline passes."""
        return self._add(FaultRule(rpc, FaultAction.DROP, times, **where))

    def disconnect(self, rpc: str, *, times: int | None = 1, **where: Any) -> int:
        """Ends the call as a connection that breaks: UNAVAILABLE."""
        return self._add(FaultRule(rpc, FaultAction.DISCONNECT, times, **where))

    def hold(self, rpc: str, *, times: int | None = 1, **where: Any) -> int:
        """Keeps calls until :meth:`release`."""
        return self._add(FaultRule(rpc, FaultAction.HOLD, times, **where))

    def _add(self, rule: FaultRule) -> int:
        return self._loop.call(lambda: self._faults.add(rule))

    def release(self, rule_id: int, calls: int | None = None) -> None:
        """Lets go on whom a rule holds or delays, the oldest ``calls`` of them or all."""
        self._loop.call(lambda: self._faults.release(rule_id, calls))

    def remove(self, rule_id: int) -> None:
        """Forgets a rule, and lets go on whom it keeps back."""
        self._loop.call(lambda: self._faults.remove(rule_id))

    def clear(self) -> None:
        """Forgets every rule."""
        self._loop.call(self._faults.clear)

    def reports(self) -> list[FaultReport]:
        """Every rule with the number of calls that it has struck."""
        return self._loop.call(self._faults.reports)

    def kept(self, rule_id: int) -> int:
        """How many calls a rule delays, drops or holds now."""
        return self._loop.call(lambda: self._faults.count_waiting(rule_id))


class RunningBroker:
    """A broker that serves in this process: where it is reached, what it knows, and what it is to do wrong."""

    def __init__(self, endpoints: str, server: BrokerServer, loop: _Loop) -> None:
        self.endpoints = endpoints
        self.clock = BrokerClock(server, loop)
        self.faults = BrokerFaults(server, loop)
        self._server = server
        self._loop = loop

    def look(self, question: Callable[[BrokerState], T]) -> T:
        """Asks the state a question at a moment at which nothing changes it. What it gives must not be the state."""
        return self._loop.call(lambda: question(self._server.state))

    def change(self, command: Callable[[Draft], T]) -> T:
        """Runs a command of ``rmqpull_broker.core`` and returns when it is kept. Raises its BrokerError."""
        return self._loop.run(self._server.group_commit.execute(command))

    # --- topics and messages -------------------------------------------------------------------------------------

    def create_topic(self, name: str, queues: int = 8, topic_type: TopicType = TopicType.NORMAL) -> None:
        """Creates a topic, or changes its number of queues. Raises BrokerError."""
        topic = TopicConfig(name, queues, queues, topic_type, creation_id=secrets.token_hex(8))
        self.change(lambda draft: put_topic(draft, topic))

    def delete_topic(self, name: str) -> None:
        """Deletes a topic with its messages. Raises TopicNotFound."""
        self.change(lambda draft: delete_topic(draft, name))

    def send(self, topic: str, *messages: Message | bytes) -> list[StoredMessage]:
        """Sends messages one by one, as so many SendMessage calls, and gives them as stored. Raises BrokerError."""
        return [self._send(topic, message) for message in messages]

    def _send(self, topic: str, message: Message | bytes) -> StoredMessage:
        def command(draft: Draft) -> StoredMessage:
            now_ms = self._server.clock.wall_ms()
            whole = Message(message, "") if isinstance(message, bytes) else message
            whole = replace(
                whole,
                msg_id=whole.msg_id or self._server.message_ids.take_one(now_ms),
                born_timestamp_ms=whole.born_timestamp_ms or now_ms,
            )
            (sent,) = self._server.sender.send(draft, topic, [whole], now_ms)
            return sent.row

        return self.change(command)

    def messages(self, topic: str) -> list[StoredMessage]:
        """Every message that can be read, queue by queue."""
        return self.look(lambda state: [row for queue in _queues(state, topic) for row in _rows(state, queue)])

    def bounds(self, topic: str) -> dict[MessageQueue, Bounds]:
        """The readable range of each of the topic's queues."""
        return self.look(lambda state: {queue: state.bounds(queue) for queue in _queues(state, topic)})

    def consumer_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """What a group has committed, on the queues where it has."""

        def committed(state: BrokerState) -> dict[MessageQueue, int]:
            stored = {queue: state.consumer_offsets.get((group, queue)) for queue in _queues(state, topic)}
            return {queue: offset for queue, offset in stored.items() if offset is not None}

        return self.look(committed)


def _queues(state: BrokerState, topic: str) -> list[MessageQueue]:
    return state.readable_queues(state.topic(topic))


def _rows(state: BrokerState, queue: MessageQueue) -> list[StoredMessage]:
    bounds = state.bounds(queue)
    return columns.to_rows(state.store.read(queue, *bounds)) if bounds.min_offset < bounds.max_offset else []


@contextmanager
def running_broker(
    topics: Topics | None = None,
    *,
    data_dir: str | None = None,
    extensions: str = "columns,admin,stages",
    brokers: Sequence[str] = BROKER_NAMES,
    clock: Literal["system", "manual"] = "system",
    properties: BrokerProperties | None = None,
) -> Iterator[RunningBroker]:
    """Serves on a free loopback port until the block ends, and leaves nothing behind.

    ``topics`` gives topics by name with their numbers of queues, or with (queues, type); without ``data_dir`` nothing
    touches the disk. A ``manual`` clock stands still until :meth:`BrokerClock.advance`. Raises what ``serve`` would say
    in a sentence: SettingError, BrokerError, CorruptLog or OSError.
    """
    config = BrokerConfig(
        listen=Address("127.0.0.1", 0),
        topics=[_topic_spec(name, shape) for name, shape in (topics or {}).items()],
        data_dir=data_dir,
        extensions=parse_extensions(extensions),
        broker_names=tuple(brokers),
        clock=ClockSpec(is_manual=clock == "manual"),
        properties=properties or BrokerProperties(),
    )
    started: Future[tuple[RunningBroker, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    thread = threading.Thread(target=lambda: asyncio.run(_run(config, started)), name="rmqpull-broker", daemon=True)
    thread.start()
    broker, loop, stopped = started.result()
    try:
        yield broker
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()


def _topic_spec(name: str, shape: int | tuple[int, TopicType]) -> TopicSpec:
    return TopicSpec(name, shape, TopicType.NORMAL) if isinstance(shape, int) else TopicSpec(name, *shape)


async def _run(
    config: BrokerConfig, started: Future[tuple[RunningBroker, asyncio.AbstractEventLoop, asyncio.Event]]
) -> None:
    stopped = asyncio.Event()
    try:
        server = open_broker(config)
        try:
            port = await server.start(*config.listen, new_topics(config))
            loop = asyncio.get_running_loop()
            broker = RunningBroker(f"{config.listen.host}:{port}", server, _Loop(loop))
            started.set_result((broker, loop, stopped))
            await stopped.wait()
        finally:
            await server.stop()
    except Exception as error:
        if started.done():
            raise
        started.set_exception(error)  # raised again where the broker was asked for
