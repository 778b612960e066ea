"""Group commit: commands that arrive during a sync of the log are stored together by the next sync."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from rmqpull_broker.core.errors import BrokerError, ServiceNotAvailable, TooManyRequests
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import ClockRead, Fact
from rmqpull_broker.core.state.ports import Kept, RetentionLimits, Storage
from rmqpull_broker.core.state.retention import Trimmer, is_outdated, make_retention_limits
from rmqpull_broker.server.runtime.noted_time import NOTE_TIME
from rmqpull_broker.server.runtime.slices import Clock, Slice
from rmqpull_broker.server.runtime.upkeep import Upkeep

COMMANDS_WAITING_MAX = 10_000
BYTES_WAITING_MAX = 256 << 20
_AT_ONCE_BYTES = 256 << 10
"""Commands that take more memory than this are written by the log's thread, so that other work can go on."""
_NOT_AVAILABLE = (
    "service not available now. It may be caused by one of the following reasons: the broker's disk is full [{}], "
    "messages are put to the slave, message store has been shut down, etc."
)

_logger = logging.getLogger(__name__)
T = TypeVar("T")


class _Waiting(NamedTuple):
    command: Callable[[Draft], Any]
    answer: asyncio.Future[Any]
    byte_count: int
    makes_room: bool
    note_time: Callable[[float], None] | None


class _Slices:
    """The slices of one write: the commands of many clients may take longer than a turn of the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """Begins a slice, after others have had a turn."""
        self._slice = Slice(self._clock)

    async def pause_when_over(self) -> None:
        """Gives others a turn after each slice. The draft stays valid meanwhile: nobody else stores facts."""
        if self._slice.is_over:
            await asyncio.sleep(0)
            self.begin()


class GroupCommit:
    """The broker's only writer. All methods belong to the event loop; the log has a thread.

    Arguments: the state to apply stored facts to; the storage; a callback for stored facts; a callback for each write,
    with the number of its commands, its seconds, and its error if it failed; and a function that reads seconds.
    """

    def __init__(
        self,
        state: BrokerState,
        storage: Storage,
        on_stored: Callable[[list[Fact]], None],
        on_write: Callable[[int, float, OSError | None], None] = lambda *_: None,
        clock: Clock = time.perf_counter,
    ) -> None:
        self._state = state
        self._storage = storage
        self._on_stored = on_stored
        self._on_write = on_write
        self._clock = clock
        self._waiting: list[_Waiting] = []
        self._bytes_waiting = 0
        self._writer: asyncio.Task[None] | None = None
        self._is_closed = False
        self._expiry = asyncio.Lock()
        self._size_limit_from = 0
        self._ends_expiry = False
        self.upkeep = Upkeep(state, storage, state.properties.flush_interval_commit_log)
        # One thread uses the log, so that a sync does not block the event loop.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="commit-log")

    async def execute(self, command: Callable[[Draft], T], byte_count: int = 0, *, makes_room: bool = False) -> T:
        """Runs a command, and returns its result when all of its facts are stored.

        ``byte_count`` is the command's approximate memory while it waits. A command that ``makes_room`` may store
        messages even while the storage refuses them. Raises what the command raises, TooManyRequests when too many
        commands wait, and ServiceNotAvailable when the log fails or is closed; then nothing has changed.
        """
        if self._is_closed:
            raise ServiceNotAvailable("the broker is stopping; retry after its restart")
        if len(self._waiting) >= COMMANDS_WAITING_MAX or self._bytes_waiting > BYTES_WAITING_MAX:
            raise TooManyRequests("too many writes wait for the disk; retry later")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(command, answer, byte_count, makes_room, NOTE_TIME.get()()))
        self._bytes_waiting += byte_count
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())
        try:
            return await answer
        finally:
            del answer  # breaks a cycle: it may hold an error that refers to this frame

    async def _write(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                try:
                    await self._write_together(waiting)
                except Exception as error:  # noqa: BLE001 (a bug; but no caller may wait for ever)
                    for entry in waiting:
                        _fail(entry.answer, error)
                finally:
                    self._bytes_waiting -= sum(entry.byte_count for entry in waiting)
                await self.upkeep.keep_up()
        finally:
            self._writer = None

    async def _write_together(self, waiting: list[_Waiting]) -> None:
        draft, answers, refused, slices = Draft(self._state), [], 0, _Slices(self._clock)
        refusals: list[str | None] = []  # found once, and only if messages are stored, because it needs the file system
        for command, future, _, makes_room, note_time in waiting:
            await slices.pause_when_over()
            begun_s = self._clock()
            try:
                answer = command(draft)
                if draft.stores_messages and not makes_room:
                    refusals = refusals or [self._storage.refusal]
                    if refusals[0] is not None:
                        refused += 1
                        raise ServiceNotAvailable(_NOT_AVAILABLE.format(refusals[0]))
                draft.end_command()
                answers.append((future, answer))
            except Exception as error:  # noqa: BLE001 (the caller of the command gets it)
                draft.drop_command()
                _fail(future, error)
            if note_time is not None:
                note_time(self._clock() - begun_s)
        kept: list[Kept] = []
        if draft.fact_batches:
            began_s = self._clock()
            try:
                kept = await self._append(draft.fact_batches, sum(entry.byte_count for entry in waiting))
                self._on_write(len(draft.fact_batches), self._clock() - began_s, None)
            except OSError as error:
                self._report_failure(len(draft.fact_batches), self._clock() - began_s, error)
                for future, _ in answers:
                    _fail(future, ServiceNotAvailable(_NOT_AVAILABLE.format(error)))
                return
        # Before any callback: stored facts must be in the state even if a callback fails.
        slices.begin()
        for written, facts in kept:
            await slices.pause_when_over()
            self._state.apply(facts, written)
        if refused:
            self._report_failure(refused, 0, OSError(refusals[0]))
        for future, answer in answers:
            if not future.done():
                future.set_result(answer)
        slices.begin()
        for facts in draft.fact_batches:
            await slices.pause_when_over()
            self._on_stored(facts)

    def _report_failure(self, count: int, seconds: float, error: OSError) -> None:
        self._on_write(count, seconds, error)
        _logger.error("the commit log cannot store %d writes: %s", count, error)

    async def _append(self, fact_batches: list[list[Fact]], byte_count: int) -> list[Kept]:
        # Handing work to the thread and back takes longer than a small write that need not wait for the disk.
        if byte_count <= _AT_ONCE_BYTES and (kept := self._storage.append_at_once(fact_batches)) is not None:
            return kept
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._storage.append, fact_batches)

    async def expire(self, now_ms: int) -> None:
        """Deletes the oldest messages that are too old or too many (fileReservedTime, retentionBytes).

        Stores delayed and half messages among them again first. Raises ServiceNotAvailable when the log cannot store
        these or the new min offsets; then no segment is deleted.
        """

        def begin(draft: Draft) -> Trimmer | None:
            cut = self._storage.expire(self._retention_limits(), now_ms)
            if cut is None or is_outdated(draft, cut):
                return None
            trimming = Trimmer(self._state, cut)
            step(draft, trimming)
            return trimming

        def step(draft: Draft, trimming: Trimmer) -> None:
            trimming.step(draft, now_ms)
            if not trimming.is_done and (refusal := self._storage.refusal) is not None:
                raise ServiceNotAvailable(
                    f"retention must store too many delayed and half messages again, and {refusal}"
                )

        async with self._expiry:
            if self._state.store.newest_written_ms > now_ms:
                await self.read_clock(now_ms)
            trimming = await self.execute(begin, makes_room=True)
            while trimming is not None and not trimming.is_done:
                if self._ends_expiry:
                    return
                await self.execute(lambda draft: step(draft, trimming), makes_room=True)
            if trimming is not None:
                await self.upkeep.run(lambda: self._storage.removal_job(self._state, trimming.cut))
                put_again_bytes = trimming.put_again_bytes
                self._size_limit_from = self._storage.retained_bytes + put_again_bytes if put_again_bytes else 0

    async def read_clock(self, now_ms: int) -> None:
        """Stores what the clock says when the data has later times. Raises ServiceNotAvailable."""
        await self.execute(lambda draft: draft.add(ClockRead(now_ms)))

    def end_expiry(self) -> None:
        """Ends :meth:`expire` after its current command, because a million messages may be left to store again."""
        self._ends_expiry = True

    def _retention_limits(self) -> RetentionLimits:
        """The limits of the next pass. The size is ignored until the log has grown by as much as the last pass stored
        again: if more than retentionBytes is waiting, every pass would otherwise store all of it again. A log on a full
        disk cannot grow, so there the size always applies.
        """
        limits = make_retention_limits(self._state.properties)
        if self._storage.retained_bytes < self._size_limit_from and self._storage.refusal is None:
            return limits._replace(log_bytes_max=None)
        return limits

    async def wait_until_idle(self) -> None:
        """Returns when no command waits to be stored."""
        while self._writer is not None:
            await asyncio.shield(self._writer)

    async def close(self) -> None:
        """Waits until all accepted commands are stored, takes a last snapshot, and closes the storage."""
        if self._is_closed:
            return
        self._is_closed = True
        await self.wait_until_idle()
        self._thread.shutdown()
        await self.upkeep.close()
        self._storage.close()


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if future.done():  # the caller has left
        return
    if isinstance(error, BrokerError):
        error = error.with_traceback(None)  # breaks a cycle: it refers to frames that refer to the future
    else:
        _logger.debug("a command failed", exc_info=error)
    future.set_exception(error)
