"""What the broker does for stages by itself: it stores what is committed, and drops what nobody keeps."""

from __future__ import annotations

import logging
from functools import partial

from rmqpull_broker.core import staging
from rmqpull_broker.core.errors import BadRequest, BrokerError, TooManyRequests
from rmqpull_broker.core.facts import BatchId
from rmqpull_broker.core.sending import Sender
from rmqpull_broker.core.state import BrokerState
from rmqpull_broker.server.alarm import Alarm
from rmqpull_broker.server.clock import Clock
from rmqpull_broker.server.group_commit import GroupCommit

TIMEOUT_MS = 600_000
"""How long stages stay when their writer does not say."""
TIMEOUT_MS_MAX = 24 * 3_600_000
RETRY_MS = 1_000
"""After a write that failed."""

_logger = logging.getLogger(__name__)


class StageWork:
    """Belongs to the event loop. When stages time out is not kept: a broker that starts gives each its time anew.

    Arguments: the state that has the stages; the way to change it; the clock; what stores messages.
    """

    def __init__(self, state: BrokerState, group_commit: GroupCommit, clock: Clock, sender: Sender) -> None:
        self._state = state
        self._group_commit = group_commit
        self._clock = clock
        self._sender = sender
        self._deadlines: dict[BatchId, int] = {}
        self._dropping = Alarm(clock, self._drop_overdue)
        self._storing = Alarm(clock, self._store_all)

    def start(self) -> None:
        """Goes on with commits that a kill cut short, and gives all other stages their time."""
        for stage in self._state.stages.all().values():
            if not stage.is_committed:
                self.keep(stage.batch, 0)
        if self._state.stages.committing():
            self._storing.set(self._clock.passing_ms())

    @staticmethod
    def check(timeout_ms: int) -> None:
        """Raises BadRequest for a timeout that cannot be."""
        if not 0 <= timeout_ms <= TIMEOUT_MS_MAX:
            raise BadRequest(f"timeout_ms is {timeout_ms}, and must be in [0, {TIMEOUT_MS_MAX}]")

    def keep(self, batch: BatchId, timeout_ms: int) -> None:
        """Lets the stages of a batch live for another timeout; 0 means ten minutes. Raises TooManyRequests."""
        if batch not in self._deadlines and len(self._deadlines) >= staging.STAGES_MAX:
            raise TooManyRequests(f"{staging.STAGES_MAX} transactions are open already")
        self._deadlines[batch] = self._clock.passing_ms() + (timeout_ms or TIMEOUT_MS)
        self._dropping.set(self._deadlines[batch])

    async def store(self, batch: BatchId) -> None:
        """Returns when all that a committed batch holds stands in its own queues.

        Raises the BrokerError of a write that failed; it is tried again without anybody asking.
        """
        try:
            while self._is_being_stored(batch):
                await self._store_next()
        except BrokerError:
            self._storing.set(self._clock.passing_ms() + RETRY_MS)
            raise
        self._deadlines.pop(batch, None)

    def _is_being_stored(self, batch: BatchId) -> bool:
        stages = self._state.stages
        return any(stages.all()[stage_id].batch == batch for stage_id in stages.committing())

    async def _store_all(self) -> None:
        try:
            while self._state.stages.committing():
                await self._store_next()
        except BrokerError as error:
            _logger.warning("a committed transaction could not be stored and is tried again: %s", error)
            self._storing.set(self._clock.passing_ms() + RETRY_MS)

    async def _store_next(self) -> None:
        stored = await self._group_commit.execute(
            lambda draft: staging.store_next(draft, self._sender, self._clock.wall_ms())
        )
        if stored is not None and stored.dropped_rows:
            _logger.warning(
                "%d committed messages of stage %s were dropped: their topics are gone",
                stored.dropped_rows,
                stored.stage_id,
            )

    async def _drop_overdue(self) -> None:
        now_ms = self._clock.passing_ms()
        overdue = [batch for batch, deadline_ms in self._deadlines.items() if deadline_ms <= now_ms]
        try:
            for batch in overdue:
                dropped = await self._group_commit.execute(partial(staging.drop, batch=batch))
                self._deadlines.pop(batch, None)
                if dropped:
                    _logger.warning("%d stages of transaction %s were dropped: nobody kept them", dropped, batch)
        except BrokerError as error:
            _logger.warning("stages could not be dropped and are tried again: %s", error)
            self._dropping.set(now_ms + RETRY_MS)
        if self._deadlines:
            self._dropping.set(max(min(self._deadlines.values()), now_ms + 1))

    @property
    def is_busy(self) -> bool:
        """Whether something is stored or dropped now."""
        return self._storing.is_ringing or self._dropping.is_ringing

    async def stop(self) -> None:
        """Ends all of it; what is committed is stored when the broker is back."""
        await self._storing.cancel()
        await self._dropping.cancel()
