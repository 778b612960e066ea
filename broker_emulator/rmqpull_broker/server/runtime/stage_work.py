"""What the broker does for stages by itself: it stores what is committed, and drops what nobody keeps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from functools import partial

from rmqpull_broker.core.errors import BadRequest, ServiceNotAvailable
from rmqpull_broker.core.sending import stage_commands
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.facts import CallStaged, Fact, StagesCommitted, TransactionId
from rmqpull_broker.server.clock import Clock
from rmqpull_broker.server.runtime.alarm import Alarm
from rmqpull_broker.server.runtime.group_commit import GroupCommit

TIMEOUT_MS = 600_000
"""How long stages stay when their writer does not say."""
TIMEOUT_MS_MAX = 24 * 3_600_000
RETRY_MS = 1_000
"""After a write that failed."""

_NOT_STORED = "what {} committed could not be stored yet, which is tried again: {}"
_STOPPING = "the broker stops; what is committed becomes readable when it is back"

_logger = logging.getLogger(__name__)


class StageWork:
    """Belongs to the event loop. It acts on what was kept, and not on what callers do next: they may be gone by then.

    When stages time out is not kept, only their timeouts: a broker that starts gives each its time anew.

    Arguments: the state that has the stages; the way to change it; the clock; what stores messages.
    """

    def __init__(self, state: BrokerState, group_commit: GroupCommit, clock: Clock, sender: Sender) -> None:
        self._state = state
        self._group_commit = group_commit
        self._clock = clock
        self._sender = sender
        # Of each batch that has stages which are not committed; of a few that have none any more.
        self._deadlines: dict[TransactionId, int] = {}
        self._waiting: list[tuple[TransactionId, asyncio.Future[None]]] = []
        self._dropping = Alarm(clock, self._drop_overdue)
        self._storing = Alarm(clock, self._store_all)
        self._is_stopped = False

    def start(self) -> None:
        """Goes on with commits that a kill cut short, and gives all other stages their time."""
        for stage in self._state.stages.all().values():
            if not stage.is_committed:
                self._expect(stage.batch, stage.last_call.timeout_ms)
        if self._state.stages.committing():
            self._storing.ring()

    @staticmethod
    def check(timeout_ms: int) -> None:
        """Raises BadRequest for a timeout that cannot be."""
        if not 0 <= timeout_ms <= TIMEOUT_MS_MAX:
            raise BadRequest(f"timeout_ms is {timeout_ms}, and must be in [0, {TIMEOUT_MS_MAX}]")

    def kept(self, facts: Iterable[Fact]) -> None:
        """Takes note of stages that are new and of those that are to be stored."""
        for fact in facts:
            if isinstance(fact, CallStaged):
                self._expect(fact.batch, fact.timeout_ms)
            elif isinstance(fact, StagesCommitted):
                self._deadlines.pop(fact.batch, None)
                if not self._is_stopped:
                    self._storing.ring()

    def keep(self, batch: TransactionId, timeout_ms: int) -> None:
        """Lets the stages of a batch live for another timeout, if it has any; 0 means ten minutes."""
        if batch in self._deadlines:
            self._deadlines.pop(batch)
            self._expect(batch, timeout_ms)

    def _expect(self, batch: TransactionId, timeout_ms: int) -> None:
        deadline_ms = self._clock.passing_ms() + (timeout_ms or TIMEOUT_MS)
        self._deadlines[batch] = max(deadline_ms, self._deadlines.get(batch, 0))
        if not self._is_stopped:
            self._dropping.set(self._deadlines[batch])

    async def stored(self, batch: TransactionId) -> None:
        """Returns when all that a committed batch holds stands in its own queues.

        Raises ServiceNotAvailable when a write failed; it is tried again without anybody asking.
        """
        if not self._is_being_stored(batch):
            return
        if self._is_stopped:
            raise ServiceNotAvailable(_STOPPING)
        told = asyncio.get_running_loop().create_future()
        self._waiting.append((batch, told))
        self._storing.ring()
        await told

    def _is_being_stored(self, batch: TransactionId) -> bool:
        stages = self._state.stages
        return any(stages.all()[stage_id].batch == batch for stage_id in stages.committing())

    def _tell(self, failed: Mapping[str, Exception]) -> None:
        """Tells those whose batch is stored, and those whose writer's rows could not be."""
        waiting, self._waiting = self._waiting, []
        for batch, told in waiting:
            if told.done():  # the caller went away
                continue
            if not self._is_being_stored(batch):
                told.set_result(None)
            elif (error := failed.get(batch.writer)) is not None:
                told.set_exception(ServiceNotAvailable(_NOT_STORED.format(batch.writer, error)))
            else:
                self._waiting.append((batch, told))

    async def _store_all(self) -> None:
        """Stage by stage. A writer whose rows cannot be stored waits, with all that it has committed since: batches of
        a query keep their order. Others do not wait for it."""
        failed: dict[str, Exception] = {}
        while not failed and (stage_ids := list(self._state.stages.committing())):
            for stage_id in stage_ids:
                await self._store(stage_id, failed)
        if failed:
            self._storing.set(self._clock.passing_ms() + RETRY_MS)

    async def _store(self, stage_id: str, failed: dict[str, Exception]) -> None:
        """Stores a committed stage call by call, unless its writer is one of ``failed``, or becomes one."""
        while (stage := self._state.stages.find(stage_id)) is not None and stage.batch.writer not in failed:
            try:
                dropped = await self._group_commit.execute(
                    lambda draft: stage_commands.store_next(draft, self._sender, stage_id, self._clock.wall_ms())
                )
            except Exception as error:  # noqa: BLE001 (whatever it is: what is committed must be stored)
                _logger.warning("stage %s is committed, could not be stored and is tried again: %s", stage_id, error)
                failed[stage.batch.writer] = error
            else:
                if dropped:
                    _logger.warning(
                        "%d committed messages of stage %s were dropped: their topic is gone", dropped, stage_id
                    )
            self._tell(failed)

    async def _drop_overdue(self) -> None:
        now_ms = self._clock.passing_ms()
        for batch in [batch for batch, deadline_ms in self._deadlines.items() if deadline_ms <= now_ms]:
            if self._deadlines.get(batch, now_ms + 1) > now_ms:
                continue  # somebody kept it meanwhile
            # Before it is dropped, so that a stage that is made meanwhile has its own.
            del self._deadlines[batch]
            try:
                dropped = await self._group_commit.execute(partial(stage_commands.drop, batch=batch))
            except Exception as error:  # noqa: BLE001 (whatever it is: no stage may stay for ever)
                _logger.warning("stages of transaction %s could not be dropped and are tried again: %s", batch, error)
                self._deadlines.setdefault(batch, self._clock.passing_ms() + RETRY_MS)
            else:
                if dropped:
                    _logger.warning("%d stages of transaction %s were dropped: nobody kept them", dropped, batch)
        if self._deadlines:
            self._dropping.set(min(self._deadlines.values()))

    @property
    def is_busy(self) -> bool:
        """Whether something is stored or dropped now."""
        return self._storing.is_ringing or self._dropping.is_ringing

    async def stop(self) -> None:
        """Ends all of it; what is committed is stored when the broker is back."""
        self._is_stopped = True
        await self._storing.cancel()
        await self._dropping.cancel()
        for _, told in self._waiting:
            if not told.done():
                told.set_exception(ServiceNotAvailable(_STOPPING))
