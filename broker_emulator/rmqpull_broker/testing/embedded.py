"""A broker in the process of a test: ``with running_broker(topics={"orders": 8}) as broker: …``.

The broker runs on its own thread. Everything here can be called from any other thread.
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

from rmqpull_broker.assembly import make_remoting_address, make_tls_address, make_topics, open_broker
from rmqpull_broker.config import BrokerConfig
from rmqpull_broker.config_values import BROKER_NAMES, Address, ClockSpec, TopicSpec, parse_admin_from, parse_extensions
from rmqpull_broker.core.admin.fault_rules import FaultAction, FaultReport, FaultRule
from rmqpull_broker.core.admin.topics import delete_topic, put_topic
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Bounds, Message, MessageQueue, StoredMessage, TopicConfig, TopicType
from rmqpull_broker.core.popping.in_flight_listing import InFlightQuery, ListedMessage, list_in_flight
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.server.app import BrokerServer

T = TypeVar("T")
Topics = Mapping[str, int | tuple[int, TopicType]]
"""Topics by name, each with its number of queues, or with (queues, type)."""


class _Loop:
    """The event loop of a broker, for other threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the loop. Returns its result, or raises its error."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def call(self, work: Callable[[], T]) -> T:
        """Runs a function on the loop. Returns its result, or raises its error."""

        async def call() -> T:
            return work()

        return self.run(call())


class BrokerClock:
    """The clock of a broker that was started with ``clock="manual"``."""

    def __init__(self, server: BrokerServer, loop: _Loop) -> None:
        self._server = server
        self._loop = loop

    def now_ms(self) -> int:
        """The broker's time in milliseconds since the epoch."""
        return self._loop.call(self._server.clock_mover.now_ms)

    def advance(self, ms: int = 0, *, seconds: float = 0, minutes: float = 0, hours: float = 0) -> int:
        """Advances the clock. Returns the new time when everything that fell due is done.

        Raises BadRequest when the broker follows the system's clock.
        """
        passed = timedelta(milliseconds=ms, seconds=seconds, minutes=minutes, hours=hours)
        return self._loop.run(self._server.clock_mover.advance(passed // timedelta(milliseconds=1)))


class BrokerFaults:
    """Injects faults into calls.

    ``fail``, ``delay``, ``drop``, ``disconnect`` and ``hold`` add a rule for the next ``times`` calls of an RPC (None:
    for all calls), and return its id. ``topic``, ``queue_id``, ``broker_name``, ``group`` and ``client_id`` restrict
    it. With ``after=True`` the command is executed, and only its response is affected. All raise BadRequest for invalid
    rules.
    """

    def __init__(self, server: BrokerServer, loop: _Loop) -> None:
        self._faults = server.faults
        self._loop = loop

    def fail(
        self, rpc: str, code: str = "INTERNAL_SERVER_ERROR", message: str = "", *, times: int | None = 1, **where: Any
    ) -> int:
        """Responds with a code of ``apache.rocketmq.v2``; a request of remoting can also get one of ResponseCode."""
        return self._add(FaultRule(rpc, FaultAction.FAIL, times, code=code, message=message, **where))

    def delay(self, rpc: str, ms: int, *, times: int | None = 1, **where: Any) -> int:
        """Delays the call, by the broker's clock."""
        return self._add(FaultRule(rpc, FaultAction.DELAY, times, delay_ms=ms, **where))

    def drop(self, rpc: str, *, times: int | None = 1, **where: Any) -> int:
        """Never responds: the caller's deadline expires."""
        return self._add(FaultRule(rpc, FaultAction.DROP, times, **where))

    def disconnect(self, rpc: str, *, times: int | None = 1, **where: Any) -> int:
        """Ends the call as when the connection breaks: with UNAVAILABLE in gRPC, by closing it in remoting."""
        return self._add(FaultRule(rpc, FaultAction.DISCONNECT, times, **where))

    def hold(self, rpc: str, *, times: int | None = 1, **where: Any) -> int:
        """Holds the call until :meth:`release`."""
        return self._add(FaultRule(rpc, FaultAction.HOLD, times, **where))

    def _add(self, rule: FaultRule) -> int:
        return self._loop.call(lambda: self._faults.add(rule))

    def release(self, rule_id: int, calls: int | None = None) -> None:
        """Resumes the calls that a rule holds or delays: the oldest ``calls``, or all."""
        self._loop.call(lambda: self._faults.release(rule_id, calls))

    def remove(self, rule_id: int) -> None:
        """Removes a rule, and resumes the calls that it holds or delays."""
        self._loop.call(lambda: self._faults.remove(rule_id))

    def clear(self) -> None:
        """Removes all rules."""
        self._loop.call(self._faults.clear)

    def reports(self) -> list[FaultReport]:
        """Lists all rules, with the number of their faults so far."""
        return self._loop.call(self._faults.reports)

    def kept(self, rule_id: int) -> int:
        """Returns how many calls a rule delays, drops or holds now."""
        return self._loop.call(lambda: self._faults.count_waiting(rule_id))


class RunningBroker:
    """A broker that serves in this process: its address, state, clock and faults."""

    def __init__(self, endpoints: str, server: BrokerServer, loop: _Loop) -> None:
        self.endpoints = endpoints
        self.remoting_addresses = server.remoting_addresses
        """The addresses of its brokers for the remoting protocol; the first is the name server's. Empty without it."""
        self.tls_endpoints = server.tls_endpoints
        """The address for gRPC clients that speak TLS. None without it."""
        self.clock = BrokerClock(server, loop)
        self.faults = BrokerFaults(server, loop)
        self._server = server
        self._loop = loop

    def look(self, question: Callable[[BrokerState], T]) -> T:
        """Reads the state while nothing changes it. The result must not be the state itself."""
        return self._loop.call(lambda: question(self._server.state))

    def change(self, command: Callable[[Draft], T]) -> T:
        """Runs a command of ``rmqpull_broker.core``. Returns when it is stored. Raises its BrokerError."""
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
        """Sends messages one by one, as SendMessage does. Returns the stored messages. Raises BrokerError."""
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
        """Reads all messages of a topic, queue by queue."""
        return self.look(lambda state: [row for queue in _queues(state, topic) for row in _rows(state, queue)])

    def bounds(self, topic: str) -> dict[MessageQueue, Bounds]:
        """Reads the min and max offset of each queue of a topic."""
        return self.look(lambda state: {queue: state.bounds(queue) for queue in _queues(state, topic)})

    def consumer_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """Reads a group's consumer offsets, on the queues that have one."""

        def committed(state: BrokerState) -> dict[MessageQueue, int]:
            stored = {queue: state.consumer_offsets.get((group, queue)) for queue in _queues(state, topic)}
            return {queue: offset for queue, offset in stored.items() if offset is not None}

        return self.look(committed)

    def in_flight(self, group: str | None = None) -> Sequence[ListedMessage]:
        """Lists messages that a group, or any, has received and not acknowledged: the first 1,000 of them."""
        query = InFlightQuery(() if group is None else [group])
        return self.look(lambda state: list_in_flight(state, query).messages)


def _queues(state: BrokerState, topic: str) -> list[MessageQueue]:
    return state.list_readable_queues(state.require_topic(topic))


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
    remoting: bool = False,
    remoting_vip: bool = False,
    tls: bool = False,
    admin_from: str = "all",
) -> Iterator[RunningBroker]:
    """Runs a broker on a free loopback port until the end of the block.

    ``topics`` has topics by name, with their number of queues, or with (queues, type). Without ``data_dir`` nothing is
    written to disk. A ``manual`` clock moves only by :meth:`BrokerClock.advance`. ``remoting`` also serves clients of
    the remoting protocol, and ``remoting_vip`` those for Java up to 4.5.0 too, which send to the port two below that of
    a broker. ``tls`` also serves gRPC clients that speak TLS, on another port and with a certificate that the broker
    makes, which needs ``rmqpull[tls]``. ``admin_from`` is the flag ``--admin-from``: a test may change everything,
    unless it shows what a program without that right sees (``"none"``). Raises SettingError, BrokerError, CorruptLog or
    OSError when the broker cannot start.
    """
    config = BrokerConfig(
        listen=Address("127.0.0.1", 0),
        remoting=[Address("127.0.0.1", 0)] if remoting else (),
        remoting_vip=remoting_vip,
        tls_listen=Address("127.0.0.1", 0) if tls else None,
        topics=[_topic_spec(name, shape) for name, shape in (topics or {}).items()],
        data_dir=data_dir,
        extensions=parse_extensions(extensions),
        admin_from=parse_admin_from(admin_from),
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
            remoting, tls = make_remoting_address(config), make_tls_address(config)
            port = await server.start(*config.listen, make_topics(config), remoting, tls)
            loop = asyncio.get_running_loop()
            broker = RunningBroker(f"{config.listen.host}:{port}", server, _Loop(loop))
            started.set_result((broker, loop, stopped))
            await stopped.wait()
        finally:
            await server.stop()
    except Exception as error:
        if started.done():
            raise
        started.set_exception(error)  # running_broker raises it
