"""The broker on its ports: starts and stops state, group commit, parking, gRPC and the remoting protocol in order."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import grpc

from rmqpull_broker.core.admin.admin_peers import LOOPBACK_PEERS, AdminPeers
from rmqpull_broker.core.admin.topics import create_topic
from rmqpull_broker.core.filters.message_filter import forget_compiled
from rmqpull_broker.core.messages.ids import MessageIds
from rmqpull_broker.core.model import TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.pulling.parking import PollingRules
from rmqpull_broker.core.sending.half_messages import TransactionCheck
from rmqpull_broker.core.sending.queue_selection import QueueSelector
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.core.state.ports import Storage
from rmqpull_broker.server.access import Access
from rmqpull_broker.server.addresses import PortUnavailable, join_address
from rmqpull_broker.server.clients import Clients
from rmqpull_broker.server.clock import Clock, ClockMover, SystemClock
from rmqpull_broker.server.fault_names import check_names
from rmqpull_broker.server.grpc.call_shares import CallShares
from rmqpull_broker.server.grpc.connections import CALLS_MAX, CALLS_OF_ALL_MAX, OPTIONS, listen, listen_with_tls
from rmqpull_broker.server.grpc.health import HEALTH, Health
from rmqpull_broker.server.grpc.reflection import enable_reflection
from rmqpull_broker.server.grpc.registry import make_generic_handlers
from rmqpull_broker.server.runtime.clock_watch import ClockWatch
from rmqpull_broker.server.runtime.faults import Faults
from rmqpull_broker.server.runtime.group_commit import GroupCommit
from rmqpull_broker.server.runtime.metrics import Metrics
from rmqpull_broker.server.runtime.parking import PullParker
from rmqpull_broker.server.runtime.pops import Pops
from rmqpull_broker.server.runtime.renewer import Renewer
from rmqpull_broker.server.runtime.service import Service
from rmqpull_broker.server.runtime.stage_keeper import StageKeeper
from rmqpull_broker.server.runtime.stats import Stats
from rmqpull_broker.server.runtime.timed_work import Cleaner, TimedWork
from rmqpull_broker.server.runtime.unstored_offsets import UnstoredOffsets

if TYPE_CHECKING:
    from rmqpull_broker.server.grpc.tls import TlsAddress
    from rmqpull_broker.server.observability.exposition import Exposition
    from rmqpull_broker.server.remoting.listener import RemotingListener
    from rmqpull_broker.server.remoting.ports import RemotingAddress

_logger = logging.getLogger(__name__)

STOP_GRACE_S = 1.0
"""How long a stopping broker waits for calls in flight of both protocols together."""
_NO_END_S = 3600.0
"""The grace period for gRPC, which cancels all calls when it ends."""
_TURNS_UNTIL_TASKS_RUN = 3
"""Turns of the event loop until a task that a timer has started runs."""


class BrokerServer:
    """Serves a recovered state until it is stopped.

    Arguments: the state; the storage; the clock; ids for messages without one; the enabled services of ``rmqpull.v1``;
    the peers that may administrate.
    """

    def __init__(
        self,
        state: BrokerState,
        storage: Storage,
        clock: Clock,
        message_ids: MessageIds,
        *,
        extensions: frozenset[str],
        admin_peers: AdminPeers = LOOPBACK_PEERS,
    ) -> None:
        self.state = state
        self.clock = clock
        self.message_ids = message_ids
        self._extensions = extensions
        self._access = Access(admin_peers)
        self._parker = PullParker(state.store, clock, _polling_rules(state.properties))
        self._storage = storage
        self.faults = Faults(clock, check_names)
        self.metrics = Metrics()
        self.stats = Stats(clock.steady_ms())
        self.group_commit = GroupCommit(state, storage, self._handle_stored, self._handle_write)
        self._unstored_offsets = UnstoredOffsets(state, self.group_commit)
        self._pops = Pops(state, self.group_commit, clock, metrics=self.metrics, stats=self.stats)
        self.clock_mover = ClockMover(clock, self._wait_until_idle)
        self._timed_work: TimedWork | None = None
        self._stage_keeper: StageKeeper | None = None
        self.clients = Clients(clock, notify_consumer_ids_changed=state.properties.notify_consumer_ids_changed_enable)
        self._renewer = Renewer(
            self._pops,
            clock,
            lambda holder: self.clients.is_member(*holder),
            state.find_group,
        )
        # A manual clock is not watched: only ``advance`` moves it, and never back.
        self._watch = (
            ClockWatch(state, self.group_commit, clock, self._handle_step) if isinstance(clock, SystemClock) else None
        )
        self._cleaner = Cleaner(self.group_commit, clock)
        self._calls = CallShares(CALLS_MAX)
        self._server: grpc.aio.Server | None = None
        self._health: Health | None = None
        self._exposition: Exposition | None = None
        self._remoting: RemotingListener | None = None
        self.tls_endpoints: str | None = None
        """The address for gRPC clients that speak TLS. None unless they are served."""

    async def start(
        self,
        host: str,
        port: int,
        topics: Sequence[TopicConfig],
        remoting: RemotingAddress | None = None,
        tls: TlsAddress | None = None,
    ) -> int:
        """Listens, creates the missing topics, all or none, and returns the port, a free one when ``port`` is 0.

        ``remoting`` says where to serve the remoting protocol, if it is served, and ``tls`` where to serve gRPC over
        TLS. Raises PortUnavailable, or the BrokerError of a topic that cannot be created.
        """

        def create_topics(draft: Draft) -> None:
            for topic in topics:
                create_topic(draft, topic)

        self._server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=CALLS_OF_ALL_MAX)
        port = listen(self._server, host, port)
        if tls is not None:
            self.tls_endpoints = join_address(tls.host, listen_with_tls(self._server, tls))
        if remoting is not None:
            await self._bind_remoting(remoting)
        await self.group_commit.execute(create_topics)
        if self._watch is not None:
            await self._watch.start()
        selector = QueueSelector(random.randrange)
        self.sender = Sender(selector, self.message_ids, f"{host}:{port}", self._consumes_in_order)
        self._stage_keeper = StageKeeper(self.state, self.group_commit, self.clock, self.sender)
        self._timed_work = TimedWork(
            self.state,
            self.group_commit,
            self.clock,
            self.sender.store_host,
            self._send_check,
            lambda: self.message_ids.take_one(self.clock.wall_ms()),
        )
        service = self._make_service((host, port), self._stage_keeper)
        handlers = make_generic_handlers(service, self._calls)
        self._server.add_generic_rpc_handlers(list(handlers.values()))
        enable_reflection(self._server, [*handlers, HEALTH.name], self._calls)
        self._health = Health(self._server, list(handlers), self._calls)
        await self._server.start()
        if self._remoting is not None:
            await self._remoting.start(service)
        self._timed_work.start()
        self._stage_keeper.start()
        self._cleaner.start()
        return port

    def _consumes_in_order(self, group: str, now_ms: int) -> bool:
        """Whether a client holds a queue of the group. Not by ``now_ms``: locks expire by the steady clock."""
        return self.clients.locks.has_locks(group, self.clock.steady_ms())

    async def _bind_remoting(self, remoting: RemotingAddress) -> None:
        """Listens for clients of the remoting protocol. Raises PortUnavailable."""
        # Imported here, because a broker without remoting starts faster.
        from rmqpull_broker.server.remoting.listener import RemotingListener

        self._remoting = RemotingListener(self.clients, self.clock)
        await self._remoting.bind(remoting, self.state.broker_names)
        # As with Apache's proxy, the store host of all messages is the broker's address for remoting.
        self.state.store_hosts = {site.broker_name: site.store_host for site in self._remoting.sites}

    def _make_service(self, endpoints: tuple[str, int], stage_keeper: StageKeeper) -> Service:
        return Service(
            state=self.state,
            group_commit=self.group_commit,
            parker=self._parker,
            sender=self.sender,
            clock=self.clock,
            faults=self.faults,
            metrics=self.metrics,
            endpoints=endpoints,
            clients=self.clients,
            clock_mover=self.clock_mover,
            stage_keeper=stage_keeper,
            unstored_offsets=self._unstored_offsets,
            pops=self._pops,
            renewer=self._renewer,
            extensions=self._extensions,
            stats=self.stats,
            access=self._access,
        )

    async def expose_metrics(self, host: str, port: int) -> int:
        """Serves metrics for Prometheus and returns the port, a free one when ``port`` is 0. Raises PortUnavailable."""
        # Imported here, because most brokers do not need it, and all should start fast.
        from rmqpull_broker.server.observability.exposition import Exposition

        exposition = Exposition(self.state, self._storage, self.metrics, self._parker, self._pops)
        try:
            port = await exposition.start(host, port)
        except OSError as error:
            address = join_address(host, port)
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise PortUnavailable(f"cannot listen on {address} for metrics: {reason}", "--metrics-listen") from None
        self._exposition = exposition
        return port

    @property
    def remoting_addresses(self) -> list[str]:
        """The addresses of the logical brokers for clients of remoting; the first is also the name server."""
        return [] if self._remoting is None else [site.address for site in self._remoting.sites]

    def forget(self) -> None:
        """Drops caches, and turns rows into columns, because both pin memory that could be returned to the system."""
        forget_compiled()
        self.state.store.seal_tails()
        if self._remoting is not None:
            self._remoting.forget()

    def _handle_stored(self, facts: list[Fact]) -> None:
        self.metrics.count_stored(facts)
        self.stats.count_stored(facts, self.clock.steady_ms())
        self._parker.wake_for(facts)
        self._pops.wake_for(facts)
        if self._timed_work is not None:
            self._timed_work.set_alarms()
        if self._stage_keeper is not None:
            self._stage_keeper.handle(facts)
        if self._watch is not None:
            self._watch.check_begins()

    def _handle_step(self) -> None:
        """Sets all timers again, because the clock was set."""
        if self._timed_work is not None:
            self._timed_work.set_alarms()
        self._pops.look_again()

    def _send_check(self, check: TransactionCheck) -> None:
        """Asks a producer how a half message ends. The next check asks again, possibly another producer."""
        channel = self.clients.next_producer(check.producer_group, check.queue.broker_name)
        if channel is None:
            _logger.info("no producer of %s is connected to check its half message", check.producer_group)
            return
        peer = self.clients.peers.find(channel)
        if peer is None:
            self.clients.send(channel.client_id, check)
        else:
            from rmqpull_broker.server.remoting.transaction_checks import make_check

            peer.send(make_check(self.state, check))

    async def _wait_until_idle(self) -> None:
        """Returns when everything that is due now is done."""
        for _ in range(_TURNS_UNTIL_TASKS_RUN):
            await asyncio.sleep(0)
            await self.group_commit.wait_until_idle()
            works = (self._timed_work, self._stage_keeper, self._cleaner, self._renewer, self._watch)
            while any(work is not None and work.is_busy for work in works):
                await asyncio.sleep(0)
                await self.group_commit.wait_until_idle()

    def _handle_write(self, command_count: int, seconds: float, error: OSError | None) -> None:
        self.metrics.count_write(command_count, seconds, error)
        if self._health is not None:
            self._health.report(is_serving=error is None)

    async def stop(self, *, cancels: bool = True) -> bool:
        """Ends parked pulls, stores all accepted commands, and closes the log.

        Cancels calls that have not ended after STOP_GRACE_S, which takes time for each of them. Without ``cancels``, it
        leaves them to the exit of the process. Returns whether all calls have ended.
        """
        if self._health is not None:
            self._health.close()
        self._parker.close()
        self._pops.close()
        self.faults.close()
        self.clients.close()
        if self._timed_work is not None:
            await self._timed_work.stop()
        if self._stage_keeper is not None:
            await self._stage_keeper.stop()
        have_ended = await asyncio.gather(self._end_calls(cancels=cancels), self._end_requests(cancels=cancels))
        if self._exposition is not None:
            self._exposition.close()
        await self._cleaner.stop()
        await self._renewer.stop()
        if self._watch is not None:
            await self._watch.stop()
        await self._unstored_offsets.close()
        await self.group_commit.close()
        return all(have_ended)

    async def _end_requests(self, *, cancels: bool) -> bool:
        return self._remoting is None or await self._remoting.stop(STOP_GRACE_S, cancels=cancels)

    async def _end_calls(self, *, cancels: bool) -> bool:
        if self._server is None:
            return True
        ending = asyncio.ensure_future(self._server.stop(_NO_END_S))
        await asyncio.wait({ending}, timeout=STOP_GRACE_S)
        if cancels and not ending.done():
            await self._server.stop(None)
            await ending
        return ending.done()


def _polling_rules(properties: BrokerProperties) -> PollingRules:
    return PollingRules(properties.long_polling_enable, properties.short_polling_time_mills)
