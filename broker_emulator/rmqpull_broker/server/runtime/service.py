"""What every handler works with: the state, the way to change it, and the way to wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from rmqpull_broker.core.clients.heartbeats import draft_groups
from rmqpull_broker.core.errors import ClientIdRequired, IllegalPollingTime
from rmqpull_broker.core.filters.message_filter import MessageFilter
from rmqpull_broker.core.model import GroupConfig, MessageQueue
from rmqpull_broker.core.pulling.parking import ParkedPull
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.server.clients.clients import Clients
from rmqpull_broker.server.clock import Clock
from rmqpull_broker.server.runtime.faults import Faults
from rmqpull_broker.server.runtime.group_commit import GroupCommit
from rmqpull_broker.server.runtime.metrics import Metrics
from rmqpull_broker.server.runtime.parking import Parking
from rmqpull_broker.server.runtime.stage_work import StageWork
from rmqpull_broker.server.runtime.time_machine import TimeMachine

LONG_POLLING_MS_MAX = 300_000
_ANSWER_MARGIN_MS = 50

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the peer's address without its port, its client id, and how long it will wait for the answer.

    Language and version are what the client's library says of itself; any text will do.
    """

    host: str
    client_id: str
    remaining_ms: int | None
    language: str = ""
    version: str = ""

    def require_client_id(self) -> None:
        """Raises ClientIdRequired without ``x-mq-client-id`` (rules 5.2)."""
        if not self.client_id:
            raise ClientIdRequired("client id cannot be empty")


@dataclass(frozen=True)
class Service:
    """The broker as its handlers see it.

    ``endpoints`` is the (host, port) that is listened on; ``extensions`` are the services of ``rmqpull.v1`` that are
    served.
    """

    state: BrokerState
    group_commit: GroupCommit
    parking: Parking
    sender: Sender
    clock: Clock
    faults: Faults
    metrics: Metrics
    endpoints: tuple[str, int]
    clients: Clients
    time_machine: TimeMachine
    stage_work: StageWork
    extensions: frozenset[str] = frozenset()

    def creation_id(self) -> str:
        """An id that no other creation of a topic has."""
        return str(self.sender.message_ids.take(1, self.clock_ms())[0])

    async def execute(self, command: Callable[[Draft], T]) -> T:
        """Runs a command that mostly changes nothing, and then waits for no disk; it may be run twice.

        Raises what the command raises, and what :meth:`GroupCommit.execute` raises.
        """
        draft = Draft(self.state)
        answer = command(draft)
        draft.end_command()
        return await self.group_commit.execute(command) if draft.fact_batches else answer

    def clock_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self.clock.wall_ms()

    async def groups_with_retry_topic(self, groups: Iterable[str]) -> list[GroupConfig]:
        """Consumer groups as a heartbeat needs them; those that may not be created are left out (rules 3.7)."""
        return await self.group_commit.execute(lambda draft: draft_groups(draft, groups, self._new_creation_id))

    def _new_creation_id(self) -> str:
        return self.sender.message_ids.take_one(self.clock_ms())

    @staticmethod
    def check_polling_time(timeout_ms: int) -> None:
        """Raises IllegalPollingTime for a time-out above five minutes, whether or not the pull will have to wait."""
        if timeout_ms > LONG_POLLING_MS_MAX:
            raise IllegalPollingTime(f"long polling timeout {timeout_ms} ms is above the max {LONG_POLLING_MS_MAX} ms")

    async def hold(
        self,
        queues: list[MessageQueue],
        message_filter: MessageFilter,
        timeout_ms: int,
        caller: Caller,
        *,
        group: str = "",
        on_grid: bool = False,
    ) -> bool:
        """Parks a group's pull until an arrival, a reset, its time-out, or shortly before its caller would give up.
        Returns whether it is then to be run again, which it is unless the broker stops.

        ``on_grid`` holds it as Apache does: until the first 5 s check after its time-out, even when that is 0.
        """
        if any((group, queue) in self.state.resets for queue in queues):
            return True  # it was reset while the pull's own commit was being kept
        timeout_ms = self.parking.rules.timeout_ms(timeout_ms)
        if caller.remaining_ms is not None and not on_grid:
            timeout_ms = min(timeout_ms, caller.remaining_ms - _ANSWER_MARGIN_MS)
        if timeout_ms > 0 or on_grid:
            deadline_ms = self.clock.passing_ms() + timeout_ms
            return await self.parking.wait(ParkedPull(queues, message_filter, deadline_ms, on_grid, group))
        return True
