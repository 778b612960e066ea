"""The broker on a port: state, group commit, parking and gRPC put together and taken apart again in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import grpc

from rmqpull_broker.core.draft import Draft
from rmqpull_broker.core.facts import Fact
from rmqpull_broker.core.holding import HoldingRules
from rmqpull_broker.core.message_ids import MessageIds
from rmqpull_broker.core.model import TopicConfig
from rmqpull_broker.core.ports import FactLog
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.queue_selection import QueueSelector
from rmqpull_broker.core.sending import Sender
from rmqpull_broker.core.state import BrokerState
from rmqpull_broker.core.topics import create_topic
from rmqpull_broker.core.transactions import TransactionCheck
from rmqpull_broker.server.clients import Clients
from rmqpull_broker.server.clock import Clock
from rmqpull_broker.server.codec import orphaned_transaction_to
from rmqpull_broker.server.faults import Faults
from rmqpull_broker.server.group_commit import GroupCommit
from rmqpull_broker.server.limits import GRPC_MESSAGE_BYTES_MAX
from rmqpull_broker.server.listening import listen
from rmqpull_broker.server.metrics import Metrics
from rmqpull_broker.server.parking import Parking
from rmqpull_broker.server.registry import generic_handlers
from rmqpull_broker.server.service import Service
from rmqpull_broker.server.time_machine import TimeMachine
from rmqpull_broker.server.timed_work import TimedWork

_logger = logging.getLogger(__name__)

STOP_GRACE_S = 1.0
_TURNS_TO_SETTLE = 3
"""Turns of the event loop in which a task that a timer set off gets under way."""

_OPTIONS = (
    # Two brokers on one port would share its connections by chance; the second must fail instead.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", GRPC_MESSAGE_BYTES_MAX),
    # Answers are bounded by PULL_BYTES_MAX and by what ids, hosts and traces may weigh beside.
    ("grpc.max_send_message_length", -1),
)


class BrokerServer:
    """Serves a recovered state until it is stopped.

    Arguments: the state; the log that keeps what happens next; the clock; ids for messages that come without one;
    whether ``rmqpull.v1`` is served beside the standard protocol.
    """

    def __init__(
        self,
        state: BrokerState,
        log: FactLog,
        clock: Clock,
        message_ids: MessageIds,
        *,
        with_columns: bool,
    ) -> None:
        self.state = state
        self.clock = clock
        self.message_ids = message_ids
        self._with_columns = with_columns
        self._parking = Parking(state.store, clock, _holding_rules(state.properties))
        self.faults = Faults(clock)
        self.metrics = Metrics()
        self.group_commit = GroupCommit(state, log, self._kept)
        self.time_machine = TimeMachine(clock, self._settled)
        self._timed_work: TimedWork | None = None
        self.clients = Clients(clock, notify_consumer_ids_changed=state.properties.notify_consumer_ids_changed_enable)
        self._server: grpc.aio.Server | None = None

    async def start(self, host: str, port: int, topics: Sequence[TopicConfig]) -> int:
        """Listens, creates missing topics, all or none, and returns the port, which is a free one when ``port`` is 0.

        Raises PortUnavailable, or the BrokerError of a topic that cannot be created.
        """

        def create_topics(draft: Draft) -> None:
            for topic in topics:
                create_topic(draft, topic)

        self._server = grpc.aio.server(options=_OPTIONS)
        port = listen(self._server, host, port)
        await self.group_commit.execute(create_topics)
        self.sender = Sender(QueueSelector(), self.message_ids, f"{host}:{port}")
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
        )
        self._server.add_generic_rpc_handlers(generic_handlers(service, with_columns=self._with_columns))
        self._timed_work = TimedWork(self.state, self.group_commit, self.clock, self.sender.store_host, self._ask)
        await self._server.start()
        self._timed_work.start()
        return port

    def _kept(self, facts: list[Fact]) -> None:
        self.metrics.kept(facts)
        self._parking.kept(facts)
        if self._timed_work is not None:
            self._timed_work.delayed()

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
            while self._timed_work is not None and self._timed_work.is_busy:
                await asyncio.sleep(0)
                await self.group_commit.settled()

    async def stop(self) -> None:
        """Answers parked pulls, finishes what was taken in, and closes the log; everything acknowledged is kept."""
        self._parking.close()
        self.faults.close()
        self.clients.close()
        if self._timed_work is not None:
            await self._timed_work.stop()
        if self._server is not None:
            await self._server.stop(STOP_GRACE_S)
        await self.group_commit.close()


def _holding_rules(properties: BrokerProperties) -> HoldingRules:
    return HoldingRules(properties.long_polling_enable, properties.short_polling_time_mills)
