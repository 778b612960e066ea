"""What the broker does with stages by itself: it stores delayed rows after a commit, and drops stages that time out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from functools import partial

from rmqpull_broker.core.errors import BadRequest, ServiceNotAvailable
from rmqpull_broker.core.sending import stage_commands
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.core.state.stage_facts import CallStaged, ColumnsStaged, StagesCommitted, TransactionId
from rmqpull_broker.server.clock import Alarm, Clock
from rmqpull_broker.server.runtime.group_commit import GroupCommit

TIMEOUT_MS = 600_000
"""The timeout of stages whose writer gives none."""
TIMEOUT_MS_MAX = 24 * 3_600_000
RETRY_MS = 1_000
"""The delay before a retry, after a failed write."""

_NOT_STORED = "the committed messages of {} are not stored yet; the broker retries: {}"
_STOPPING = "the broker is stopping; committed messages become readable after its restart"

_logger = logging.getLogger(__name__)


class StageKeeper:
    """Stores and drops stages. It acts on stored facts, not on calls: callers may have left by then.

    The commit log has the timeouts of stages, not their deadlines: after a restart each timeout starts again.

    Belongs to the event loop. Arguments: the state with the stages; the way to change it; the clock; the sender, which
    stores messages.
    """

    def __init__(self, state: BrokerState, group_commit: GroupCommit, clock: Clock, sender: Sender) -> None:
        self._state = state
        self._group_commit = group_commit
        self._clock = clock
        self._sender = sender
        # By transaction: of all that have uncommitted stages, and of a few that have none any more.
        self._deadlines: dict[TransactionId, int] = {}
        self._waiting: list[tuple[TransactionId, asyncio.Future[None]]] = []
        self._dropping = Alarm(clock, self._drop_overdue)
        self._storing = Alarm(clock, self._store_all)
        self._is_stopped = False

    def start(self) -> None:
        """Resumes commits that a kill interrupted, and starts the timeouts of all other stages."""
        for stage in self._state.stages.all().values():
            if not stage.is_committed:
                self._expect(stage.transaction, stage.last_call.timeout_ms)
        if self._state.stages.list_committing():
            self._storing.wake()

    @staticmethod
    def check_timeout(timeout_ms: int) -> None:
        """Raises BadRequest for a timeout out of range."""
        if not 0 <= timeout_ms <= TIMEOUT_MS_MAX:
            raise BadRequest(f"timeout_ms is {timeout_ms}: it must be in [0, {TIMEOUT_MS_MAX}]")

    def handle(self, facts: Iterable[Fact]) -> None:
        """Starts the timeouts of new stages, and the storing of committed ones."""
        for fact in facts:
            if isinstance(fact, (ColumnsStaged, CallStaged)):
                self._expect(fact.transaction, fact.timeout_ms)
            elif isinstance(fact, StagesCommitted):
                self._deadlines.pop(fact.transaction, None)
                if self._state.stages.list_committing():
                    self._storing.wake()

    def keep_alive(self, transaction: TransactionId, timeout_ms: int) -> None:
        """Restarts the timeout of a transaction's stages, if it has any; 0 means ten minutes."""
        if transaction in self._deadlines:
            self._deadlines.pop(transaction)
            self._expect(transaction, timeout_ms)

    def _expect(self, transaction: TransactionId, timeout_ms: int) -> None:
        deadline_ms = self._clock.passing_ms() + (timeout_ms or TIMEOUT_MS)
        self._deadlines[transaction] = max(deadline_ms, self._deadlines.get(transaction, 0))
        self._dropping.set(self._deadlines[transaction])

    async def wait_until_stored(self, transaction: TransactionId) -> None:
        """Returns when all messages of a committed transaction are in their own queues.

        Raises ServiceNotAvailable when a write failed; the broker retries it by itself.
        """
        if not self._is_being_stored(transaction):
            return
        if self._is_stopped:
            raise ServiceNotAvailable(_STOPPING)
        stored = asyncio.get_running_loop().create_future()
        self._waiting.append((transaction, stored))
        self._storing.wake()
        await stored

    def _is_being_stored(self, transaction: TransactionId) -> bool:
        stages = self._state.stages
        return any(stages.all()[stage_id].transaction == transaction for stage_id in stages.list_committing())

    def _wake_callers(self, failed: Mapping[str, Exception]) -> None:
        """Wakes the callers whose transaction is stored, and those whose writer is one of ``failed``."""
        waiting, self._waiting = self._waiting, []
        for transaction, stored in waiting:
            if stored.done():  # the caller has left
                continue
            if not self._is_being_stored(transaction):
                stored.set_result(None)
            elif (error := failed.get(transaction.writer)) is not None:
                stored.set_exception(ServiceNotAvailable(_NOT_STORED.format(transaction.writer, error)))
            else:
                self._waiting.append((transaction, stored))

    async def _store_all(self) -> None:
        """Stores stage by stage. After a failure, the writer's later transactions wait too: they keep their order.
        Other writers do not wait.
        """
        failed: dict[str, Exception] = {}
        while not failed and (stage_ids := list(self._state.stages.list_committing())):
            for stage_id in stage_ids:
                await self._store(stage_id, failed)
        if failed:
            self._storing.set(self._clock.passing_ms() + RETRY_MS)

    async def _store(self, stage_id: str, failed: dict[str, Exception]) -> None:
        """Stores a committed stage call by call, unless its writer is, or becomes, one of ``failed``."""
        while (stage := self._state.stages.find(stage_id)) is not None and stage.transaction.writer not in failed:
            try:
                dropped = await self._group_commit.execute(
                    lambda draft: stage_commands.store_next(draft, self._sender, stage_id, self._clock.wall_ms())
                )
            except Exception as error:  # noqa: BLE001 (committed messages must be stored, whatever fails)
                _logger.warning("cannot store the committed stage %s, will retry: %s", stage_id, error)
                failed[stage.transaction.writer] = error
            else:
                if dropped:
                    _logger.warning(
                        "dropped %d committed messages of stage %s: their topic was deleted", dropped, stage_id
                    )
            self._wake_callers(failed)

    async def _drop_overdue(self) -> None:
        now_ms = self._clock.passing_ms()
        for transaction in [
            transaction for transaction, deadline_ms in self._deadlines.items() if deadline_ms <= now_ms
        ]:
            if self._deadlines.get(transaction, now_ms + 1) > now_ms:
                continue  # a writer has kept it alive meanwhile
            # Before the drop, so that a stage that starts meanwhile gets its own deadline.
            del self._deadlines[transaction]
            try:
                dropped = await self._group_commit.execute(partial(stage_commands.drop, transaction=transaction))
            except Exception as error:  # noqa: BLE001 (no stage may stay for ever, whatever fails)
                _logger.warning("cannot drop the stages of transaction %s, will retry: %s", transaction, error)
                self._deadlines.setdefault(transaction, self._clock.passing_ms() + RETRY_MS)
            else:
                if dropped:
                    _logger.warning("dropped %d stages of transaction %s: they timed out", dropped, transaction)
        if self._deadlines:
            self._dropping.set(min(self._deadlines.values()))

    @property
    def is_busy(self) -> bool:
        """Whether stages are stored or dropped now."""
        return self._storing.is_running or self._dropping.is_running

    async def stop(self) -> None:
        """Stops. The next start stores the rest of what is committed."""
        self._is_stopped = True
        await self._storing.cancel()
        await self._dropping.cancel()
        for _, stored in self._waiting:
            if not stored.done():
                stored.set_exception(ServiceNotAvailable(_STOPPING))
