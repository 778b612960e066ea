"""The broker on a port: state, group commit, parking and gRPC put together and taken apart again in order."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import grpc

from rmqpull_broker.core.admin.topics import create_topic
from rmqpull_broker.core.messages.ids import MessageIds
from rmqpull_broker.core.model import TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.pulling.parking import PollingRules
from rmqpull_broker.core.sending.queue_selection import QueueSelector
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.core.sending.transactions import TransactionCheck
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.core.state.ports import Storage
from rmqpull_broker.server.clients.clients import Clients
from rmqpull_broker.server.clock import Clock
from rmqpull_broker.server.grpc import health
from rmqpull_broker.server.grpc.connections import CALLS_MAX, OPTIONS
from rmqpull_broker.server.grpc.listening import PortUnavailable, listen
from rmqpull_broker.server.grpc.reflection import enable_reflection
from rmqpull_broker.server.grpc.registry import generic_handlers
from rmqpull_broker.server.runtime.cleaning import Cleaning
from rmqpull_broker.server.runtime.faults import Faults
from rmqpull_broker.server.runtime.group_commit import GroupCommit
from rmqpull_broker.server.runtime.metrics import Metrics
from rmqpull_broker.server.runtime.parking import Parking
from rmqpull_broker.server.runtime.service import Service
from rmqpull_broker.server.runtime.stage_work import StageWork
from rmqpull_broker.server.runtime.time_machine import TimeMachine
from rmqpull_broker.server.runtime.timed_work import TimedWork
from rmqpull_broker.server.wire.codec import orphaned_transaction_to

if TYPE_CHECKING:
    from rmqpull_broker.server.observability.exposition import Exposition

_logger = logging.getLogger(__name__)

STOP_GRACE_S = 1.0
"""How long calls are waited for that are under way when the broker stops."""
_NO_END_S = 3600.0
"""Given to gRPC, which would cancel calls when it is over."""
_TURNS_TO_SETTLE = 3
"""Turns of the event loop in which a task that a timer set off gets under way."""


class BrokerServer:
    """Serves a recovered state until it is stopped.

    Arguments: the state; the storage that keeps what happens next; the clock; ids for messages that come without
    one; what of ``rmqpull.v1`` is served beside the standard protocol.
    """

    def __init__(
        self,
        state: BrokerState,
        storage: Storage,
        clock: Clock,
        message_ids: MessageIds,
        *,
        extensions: frozenset[str],
    ) -> None:
        self.state = state
        self.clock = clock
        self.message_ids = message_ids
        self._extensions = extensions
        self._parking = Parking(state.store, clock, _holding_rules(state.properties))
        self._storage = storage
        self.faults = Faults(clock)
        self.metrics = Metrics()
        self.group_commit = GroupCommit(state, storage, self._kept, self._written)
        self.time_machine = TimeMachine(clock, self._settled)
        self._timed_work: TimedWork | None = None
        self._stage_work: StageWork | None = None
        self.clients = Clients(clock, notify_consumer_ids_changed=state.properties.notify_consumer_ids_changed_enable)
        self._cleaning = Cleaning(self.group_commit, clock)
        self._server: grpc.aio.Server | None = None
        self._health: health.Health | None = None
        self._exposition: Exposition | None = None

    async def start(self, host: str, port: int, topics: Sequence[TopicConfig]) -> int:
        """Listens, creates missing topics, all or none, and returns the port, which is a free one when ``port`` is 0.

        Raises PortUnavailable, or the BrokerError of a topic that cannot be created.
        """

        def create_topics(draft: Draft) -> None:
            for topic in topics:
                create_topic(draft, topic)

        self._server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=CALLS_MAX)
        port = listen(self._server, host, port)
        await self.group_commit.execute(create_topics)
        selector, in_order = QueueSelector(random.randrange), self.clients.locks.holds_any
        self.sender = Sender(selector, self.message_ids, f"{host}:{port}", in_order)
        self._stage_work = StageWork(self.state, self.group_commit, self.clock, self.sender)
        service = Service(
            self.state,
            self.group_commit,
            self._parking,
            self.sender,
            self.clock,
            self.faults,
            self.metrics,
            (host, port),
            self.clients,
            self.time_machine,
            self._stage_work,
            self._extensions,
        )
        handlers = generic_handlers(service)
        self._server.add_generic_rpc_handlers(list(handlers.values()))
        self._timed_work = TimedWork(self.state, self.group_commit, self.clock, self.sender.store_host, self._ask)
        enable_reflection(self._server, [*handlers, health.SERVICE_NAME])
        self._health = health.Health(self._server, list(handlers))
        await self._server.start()
        self._timed_work.start()
        self._stage_work.start()
        self._cleaning.start()
        return port

    async def expose_metrics(self, host: str, port: int) -> int:
        """Serves metrics for Prometheus and returns the port, a free one when ``port`` is 0. Raises PortUnavailable."""
        # Loaded only now: most brokers are not watched, and all of them are to start fast.
        from rmqpull_broker.server.observability.exposition import Exposition

        exposition = Exposition(self.state, self._storage, self.metrics, self._parking)
        try:
            port = await exposition.start(host, port)
        except OSError as error:
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise PortUnavailable(f"cannot listen on {address} for metrics: {reason}") from None
        self._exposition = exposition
        return port

    def _kept(self, facts: list[Fact]) -> None:
        self.metrics.kept(facts)
        self._parking.kept(facts)
        if self._timed_work is not None:
            self._timed_work.delayed()
        if self._stage_work is not None:
            self._stage_work.kept(facts)

    def _ask(self, check: TransactionCheck) -> None:
        """Asks one producer what became of a half message; the next check asks again, perhaps another one."""
        client_id = self.clients.one_of_producers(check.producer_group)
        if client_id is None:
            _logger.info("no producer of %s can be asked after its half message", check.producer_group)
        else:
            self.clients.send(client_id, orphaned_transaction_to(check))

    async def _settled(self) -> None:
        """Returns when all that is to be done at this moment has been done."""
        for _ in range(_TURNS_TO_SETTLE):
            await asyncio.sleep(0)
            await self.group_commit.settled()
            works = (self._timed_work, self._stage_work, self._cleaning)
            while any(work is not None and work.is_busy for work in works):
                await asyncio.sleep(0)
                await self.group_commit.settled()

    def _written(self, command_count: int, seconds: float, error: OSError | None) -> None:
        self.metrics.written(command_count, seconds, error)
        if self._health is not None:
            self._health.report(is_serving=error is None)

    async def stop(self, *, cancels: bool = True) -> bool:
        """Answers parked pulls, finishes what was taken in, and closes the log; everything acknowledged is kept.

        Calls that have not ended after STOP_GRACE_S are cancelled, which takes its time for each of them. Without
        ``cancels`` they are left as they are, for a process that ends anyway. Returns whether all calls have ended.
        """
        if self._health is not None:
            await self._health.close()
        self._parking.close()
        self.faults.close()
        self.clients.close()
        if self._timed_work is not None:
            await self._timed_work.stop()
        if self._stage_work is not None:
            await self._stage_work.stop()
        have_ended = await self._end_calls(cancels=cancels)
        if self._exposition is not None:
            self._exposition.close()
        await self._cleaning.stop()
        await self.group_commit.close()
        return have_ended

    async def _end_calls(self, *, cancels: bool) -> bool:
        if self._server is None:
            return True
        ending = asyncio.ensure_future(self._server.stop(_NO_END_S))
        await asyncio.wait({ending}, timeout=STOP_GRACE_S)
        if cancels and not ending.done():
            await self._server.stop(None)
            await ending
        return ending.done()


def _holding_rules(properties: BrokerProperties) -> PollingRules:
    return PollingRules(properties.long_polling_enable, properties.short_polling_time_mills)
