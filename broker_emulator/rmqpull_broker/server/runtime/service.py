"""What every handler gets: the caller, the state, and the ways to change it and to park a pull."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from rmqpull_broker.core.clients.heartbeats import draft_groups
from rmqpull_broker.core.errors import ClientIdRequired, IllegalPollingTime
from rmqpull_broker.core.filters.message_filter import MessageFilter
from rmqpull_broker.core.model import GroupConfig, MessageQueue
from rmqpull_broker.core.pulling.parking import ParkedPull
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.core.shares import find_holder
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.server.access import Access
from rmqpull_broker.server.clients import Clients
from rmqpull_broker.server.clock import Clock, ClockMover
from rmqpull_broker.server.runtime.faults import Faults
from rmqpull_broker.server.runtime.group_commit import GroupCommit
from rmqpull_broker.server.runtime.metrics import Metrics
from rmqpull_broker.server.runtime.parking import Further, PullParker
from rmqpull_broker.server.runtime.pops import Pops
from rmqpull_broker.server.runtime.renewer import Renewer
from rmqpull_broker.server.runtime.slices import Slices
from rmqpull_broker.server.runtime.stage_keeper import StageKeeper
from rmqpull_broker.server.runtime.stats import Stats
from rmqpull_broker.server.runtime.unstored_offsets import UnstoredOffsets

LONG_POLLING_MS_MAX = 300_000
_ANSWER_MARGIN_MS = 50
_GROUPS_AT_ONCE = 10
"""Groups that one command creates, so that a heartbeat with many groups does not block the event loop."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a call: its address, ``host:port``, its client id, and the time until its deadline.

    Language and version are as the client's library reports them, in any form.
    """

    address: str
    client_id: str
    remaining_ms: int | None
    language: str = ""
    version: str = ""

    def require_client_id(self) -> None:
        """Raises ClientIdRequired without ``x-mq-client-id`` (rules 5.2)."""
        if not self.client_id:
            raise ClientIdRequired("client id cannot be empty")


@dataclass(frozen=True, kw_only=True)
class Service:
    """The broker as its handlers see it.

    ``endpoints`` is the (host, port) on which the broker listens; ``extensions`` names the enabled services of
    ``rmqpull.v1``.
    """

    state: BrokerState
    group_commit: GroupCommit
    parker: PullParker
    sender: Sender
    clock: Clock
    faults: Faults
    metrics: Metrics
    endpoints: tuple[str, int]
    clients: Clients
    clock_mover: ClockMover
    stage_keeper: StageKeeper
    unstored_offsets: UnstoredOffsets
    pops: Pops
    renewer: Renewer
    extensions: frozenset[str] = frozenset()
    stats: Stats = field(default_factory=Stats)
    access: Access = field(default_factory=Access)
    slices: Slices = field(default_factory=Slices)
    instance_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Identifies this run of the broker."""

    def make_creation_id(self) -> str:
        """Makes a creation id for a topic."""
        return self.sender.message_ids.take_one(self.clock_ms())

    async def execute(self, command: Callable[[Draft], T]) -> T:
        """Runs a command that mostly changes nothing, and then need not wait for the disk. The command may run twice.

        Raises what the command raises, and what :meth:`GroupCommit.execute` raises.
        """
        answer, changes_nothing = self.try_command(command)
        return answer if changes_nothing else await self.group_commit.execute(command)

    def try_command(self, command: Callable[[Draft], T]) -> tuple[T, bool]:
        """Runs a command without storing anything. Returns its result, and whether it changes nothing.

        If it changes something, the result is not valid: run the command again with :meth:`GroupCommit.execute`. Raises
        what the command raises.
        """
        draft = Draft(self.state)
        answer = command(draft)
        draft.end_command()
        return answer, not draft.fact_batches

    def clock_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self.clock.wall_ms()

    def steady_ms(self) -> int:
        """Milliseconds since the epoch, as if the clock had not been set since the start."""
        return self.clock.steady_ms()

    async def ensure_groups(self, groups: Iterable[str]) -> list[GroupConfig]:
        """Finds or creates groups and their retry topics; leaves out those that must not be created (rules 3.7)."""
        names, found = list(groups), list[GroupConfig]()
        for begin in range(0, len(names), _GROUPS_AT_ONCE):
            some = names[begin : begin + _GROUPS_AT_ONCE]
            found += await self.group_commit.execute(partial(self._draft_groups, some))
        return found

    def _draft_groups(self, names: Iterable[str], draft: Draft) -> list[GroupConfig]:
        return draft_groups(draft, names, self.make_creation_id)

    @staticmethod
    def check_polling_time(timeout_ms: int) -> None:
        """Raises IllegalPollingTime for a timeout above five minutes, whether or not the pull parks."""
        if timeout_ms > LONG_POLLING_MS_MAX:
            raise IllegalPollingTime(f"long polling timeout {timeout_ms} ms is above the max {LONG_POLLING_MS_MAX} ms")

    async def park(
        self,
        queues: list[MessageQueue],
        message_filter: MessageFilter,
        timeout_ms: int,
        caller: Caller,
        *,
        group: str = "",
        on_grid: bool = False,
        further: Further | None = None,
    ) -> bool:
        """Parks a group's pull until a message arrives, an offset is reset, its timeout passes, or shortly before its
        caller's deadline. Returns whether the pull must run again, which is so unless the broker stops.

        With ``on_grid`` the pull waits as with Apache's broker: until the first 5 s check after its timeout, even when
        the timeout is 0. ``further`` are more queues, as for :meth:`PullParker.park`.
        """
        if any((group, queue) in self.state.resets for queue in queues):
            return True  # an offset was reset while the pull's own commit was stored
        timeout_ms = self.parker.rules.timeout_ms(timeout_ms)
        if caller.remaining_ms is not None and not on_grid:
            timeout_ms = min(timeout_ms, caller.remaining_ms - _ANSWER_MARGIN_MS)
        if timeout_ms > 0 or on_grid:
            deadline_ms = self.clock.passing_ms() + timeout_ms
            holder = find_holder(caller.address)
            pull = ParkedPull(queues, message_filter, deadline_ms, on_grid, group, holder)
            return await self.parker.park(pull, further)
        return True
