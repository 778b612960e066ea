"""The storage's background jobs: saving chunks, taking snapshots, and syncing facts that were only written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.ports import Job, Storage

_logger = logging.getLogger(__name__)


class Upkeep:
    """Runs the storage's jobs, one at a time, on a thread of their own. All methods belong to the event loop.

    Facts that the storage did not sync at once are synced after at most ``flush_interval_ms`` milliseconds of the
    system's clock, even if the broker has a manual one.
    """

    def __init__(self, state: BrokerState, storage: Storage, flush_interval_ms: int) -> None:
        self._state = state
        self._storage = storage
        self._flush_interval_ms = flush_interval_ms
        self._job: asyncio.Task[None] | None = None
        self._flush: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._waiting_count = 0  # callers of run(), which due jobs must not keep waiting
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="upkeep")

    async def keep_up(self) -> None:
        """Starts due jobs. Call it between two writes; it waits if the storage has fallen behind."""
        self._sync_later()
        self._start_due()
        if self._job is not None and self._storage.is_behind:
            await self._job

    async def run(self, take_job: Callable[[], Job | None]) -> None:
        """Waits for the current job, then takes a job and runs it. Logs a failure."""
        self._waiting_count += 1
        try:
            while self._job is not None:
                await self._job
        finally:
            self._waiting_count -= 1
        if (job := take_job()) is not None:
            await self._start(job)

    def _start_due(self) -> None:
        if self._job is not None or self._is_closed or self._waiting_count:
            return
        if (job := self._storage.due_job(self._state)) is not None:
            self._start(job)

    def _start(self, job: Job) -> asyncio.Task[None]:
        self._job = asyncio.get_running_loop().create_task(self._run(job))
        return self._job

    async def _run(self, job: Job) -> None:
        is_done = False
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, job.run)
            is_done = True
        except OSError as error:
            _logger.error("cannot save the storage's data: %s", error)
        except Exception:
            # A bug. Whoever waits for the job, such as the writer of the log, must go on.
            _logger.exception("the job %s failed", type(job).__name__)
        finally:
            job.finish()
            self._job = None
        if is_done:
            self._start_due()  # one job saves a part of a large backlog, and the last write may be long ago

    def _sync_later(self) -> None:
        if self._flush is None and not self._storage.is_synced:
            self._flush = asyncio.get_running_loop().call_later(self._flush_interval_ms / 1000, self._sync)

    def _sync(self) -> None:
        synced = asyncio.get_running_loop().run_in_executor(self._thread, self._storage.sync)
        synced.add_done_callback(self._after_sync)

    def _after_sync(self, synced: asyncio.Future[None]) -> None:
        """Schedules the next sync: for what was written meanwhile, or as a retry."""
        self._flush = None
        if synced.cancelled() or self._is_closed:
            return
        if (error := synced.exception()) is not None:
            _logger.error("cannot sync the commit log; a power cut may lose acknowledged messages: %s", error)
        self._sync_later()

    async def close(self) -> None:
        """Takes the last snapshot. Nothing may be written afterwards."""
        self._is_closed = True
        if self._flush is not None:
            self._flush.cancel()
        while self._job is not None:
            await self._job
        await asyncio.get_running_loop().run_in_executor(self._thread, self._storage.leave_mark)
        await self.run(lambda: self._storage.last_job(self._state))
        self._thread.shutdown()
