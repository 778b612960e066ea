"""The storage of a broker with a data directory: the commit log, the queue files and the snapshots together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rmqpull_broker.core.model import LoggedMessage, MessageQueue
from rmqpull_broker.core.state.facts import ColumnsStored, Fact, RowsStored
from rmqpull_broker.core.state.ports import Cut, Job, Kept, LogRange, RetentionLimits, Snapshotted
from rmqpull_broker.core.state.retention import ClosedSegment, find_cut
from rmqpull_broker.store.jobs import SaveJob, SnapshotJob
from rmqpull_broker.store.log.commit_log import SEGMENT_BYTES, CommitLog
from rmqpull_broker.store.log.log_reader import LogReader
from rmqpull_broker.store.log.recovery import Recovery, pause_cycle_search
from rmqpull_broker.store.log.segments import CorruptLog
from rmqpull_broker.store.queues.chunks import DamagedChunk, SavedChunk
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues
from rmqpull_broker.store.queues.queue_files import CACHE_BYTES, FILE_BYTES, QueueFiles
from rmqpull_broker.store.queues.repair import rebuild_rows
from rmqpull_broker.store.snapshots import Snapshot, Snapshots
from rmqpull_broker.store.vfs import FileSystem

SCATTERED_FACTOR = 4
"""A job saves at most about this many times ``save_bytes`` of rows in scattered runs."""
SCATTERED_RUNS = 8192
"""A job saves about so many scattered runs at most, because it takes the event loop a microsecond or two for each."""
BEHIND_FACTOR = 4
"""Writes wait while more than this many times ``save_bytes`` are unsaved. Above twice as much, messages are refused."""


@dataclass(frozen=True)
class StorageOptions:
    """Limits of a storage, in bytes of log, of memory and of disk. ``syncs_appends`` is SYNC_FLUSH."""

    segment_bytes: int = SEGMENT_BYTES
    syncs_appends: bool = True
    save_bytes: int = 16 << 20
    snapshot_bytes: int = 64 << 20
    free_bytes_min: int = 32 << 20
    queue_file_bytes: int = FILE_BYTES
    cache_bytes: int = CACHE_BYTES


class DiskStorage:
    """Keeps facts in a directory. Holds no more messages in memory than the options allow.

    Arguments: the directory; the limits; a function that reports anything lost or damaged, in a sentence.
    """

    def __init__(
        self, file_system: FileSystem, options: StorageOptions, report: Callable[[str], None] = lambda sentence: None
    ) -> None:
        self._file_system = file_system
        self._options = options
        self._report = report
        self._log = CommitLog(file_system, options.segment_bytes, syncs_appends=options.syncs_appends)
        self._files = QueueFiles(file_system, options.queue_file_bytes, options.cache_bytes)
        self._snapshots = Snapshots(file_system, report)
        self._snapshot_position = 0
        self._mark_position = 0
        self._snapshot_is_next = False
        self._log_reader = LogReader(file_system)
        self.store = ConsumeQueues(self._load, self._read_message, self._files.cache)

    @property
    def _applied_until(self) -> int:
        """The log position up to which the state has applied everything."""
        return max(self.store.applied_until, self._mark_position)

    # --- restart -------------------------------------------------------------------------------------------------

    def recover(self, state: Snapshotted) -> Recovery:
        """Loads the newest snapshot and replays the log into an empty state, whose message store is ``store``.

        Call it once, before anything else. Raises CorruptLog when acknowledged records are damaged, missing or of
        another format.
        """
        snapshot = next(self._snapshots.read(), None)
        if snapshot is not None:
            self._restore(state, snapshot)
        elif self._log.begin > 0:
            raise CorruptLog(
                f"the log in {self._file_system.describe('')} begins at position {self._log.begin}, and there is no "
                "snapshot of what was before; restore a *.snapshot file from a copy"
            )

        def apply(facts: list[Fact], written: LogRange) -> None:
            state.apply(facts, written)
            self._save_if_due()

        with pause_cycle_search():
            recovery = self._log.recover(apply, self._snapshot_position)
        self._mark_position = self._log.end
        if recovery.dropped_bytes:
            self._report(
                f"removed {recovery.dropped_bytes} bytes at the end of {recovery.dropped_from}: a write that was "
                "interrupted and never acknowledged"
            )
        self._remove_unused_files()
        return recovery

    def _restore(self, state: Snapshotted, snapshot: Snapshot) -> None:
        self.store.restore(snapshot.queues, snapshot.marks, snapshot.spliced, snapshot.staged)
        segment = snapshot.marks[-1].segment if snapshot.marks else 0
        written = LogRange(segment, snapshot.unsaved_since, snapshot.position)
        for fact in snapshot.facts:
            if isinstance(fact, (RowsStored, ColumnsStored)):
                self.store.apply(fact, written)  # only the store: their effects on the state are in the other facts
            else:
                state.apply([fact], written)
        state.newest_store_ms = snapshot.times.store_ms
        self.store.segments.times = snapshot.times
        self._snapshot_position = self._mark_position = snapshot.position

    def _save_if_due(self) -> None:
        """Saves chunks during a restart. A disk that is too full for chunks does not prevent the start."""
        if self.store.unsaved_bytes > self._options.save_bytes:
            job = self._save_job()
            try:
                job.run()
            except OSError as error:
                self._report(f"chunks of consume queues cannot be saved: {error}")
            job.finish()

    # --- the commit log ------------------------------------------------------------------------------------------

    def append(self, fact_batches: Sequence[Sequence[Fact]]) -> list[Kept]:
        """Keeps all batches in order. They survive a kill when it returns. Raises OSError, and then keeps none."""
        return self._log.append(fact_batches)

    def append_at_once(self, fact_batches: Sequence[Sequence[Fact]]) -> list[Kept] | None:
        """Keeps all batches if they need no sync, and the log is not in use; None if it must wait. Raises OSError."""
        return self._log.append_at_once(fact_batches)

    def sync(self) -> None:
        """Syncs everything appended to the disk. Raises OSError."""
        self._log.sync()

    @property
    def is_synced(self) -> bool:
        """Whether everything appended is synced."""
        return self._log.is_synced

    @property
    def byte_count(self) -> int:
        """The size of the commit log in bytes."""
        return self._log.byte_count

    @property
    def retained_bytes(self) -> int:
        """The bytes that retentionBytes limits."""
        return self.byte_count

    def leave_mark(self) -> None:
        """Marks the end of the log as acknowledged."""
        self._log.leave_mark()
        self._mark_position = self._log.end

    def close(self) -> None:
        """Closes files and directory. Raises OSError when unsynced data cannot be synced."""
        try:
            self._log.close()
        finally:
            self._log_reader.close()
            self._files.close()
            self._file_system.close()

    # --- queue files and snapshots -------------------------------------------------------------------------------

    @property
    def is_behind(self) -> bool:
        """Whether writes must wait for the running job."""
        return self.store.unsaved_bytes > BEHIND_FACTOR * self._options.save_bytes

    @property
    def refusal(self) -> str | None:
        """Why messages must be refused, or None.

        The last free bytes are reserved for deletions, which free space, and for an orderly stop.
        """
        if self.store.unsaved_bytes > 2 * BEHIND_FACTOR * self._options.save_bytes:
            return "chunks of consume queues cannot be saved, and no more of them fit in memory"
        return self._find_lack_of_room()

    def _find_lack_of_room(self) -> str | None:
        """Returns why the disk is too full; None when it is not."""
        least = self._options.free_bytes_min
        try:
            if least and self._file_system.free_bytes() < least:
                return f"less than {least} bytes are free in {self._file_system.describe('')}"
        except OSError as error:
            return str(error)
        return None

    def due_job(self, state: Snapshotted) -> Job | None:
        """Returns a job that is due: saving chunks or taking a snapshot. Only one job may run at a time."""
        is_snapshot_due = self._applied_until - self._snapshot_position >= self._options.snapshot_bytes
        save_bytes = self._options.save_bytes
        is_saving_due = self.store.unsaved_bytes > save_bytes or self.store.scattered_bytes > save_bytes // 2
        # Chunks saved just before a snapshot need not be in it. Taking turns keeps the snapshot from waiting for ever.
        if is_saving_due or is_snapshot_due:
            self._snapshot_is_next = is_snapshot_due and not self._snapshot_is_next
            return self._save_job() if self._snapshot_is_next or not is_snapshot_due else self._snapshot_job(state)
        return None

    def last_job(self, state: Snapshotted) -> Job | None:
        """Returns the job of the last snapshot before a stop, after which the next start has nothing to replay."""
        return self._snapshot_job(state) if self._applied_until > self._snapshot_position else None

    def _save_job(self) -> SaveJob:
        """Returns the job that saves all final chunks, and a limited number of scattered runs."""
        self.store.finalize_down_to(self._options.save_bytes // 2)
        ready, runs = self.store.list_ready(), self.store.list_scattered(SCATTERED_RUNS)
        bytes_max = SCATTERED_FACTOR * self._options.save_bytes
        return SaveJob(self.store, self._files, ready, runs, bytes_max, self._file_system)

    def _snapshot_job(self, state: Snapshotted, cut: int | None = None) -> SnapshotJob:
        position = self._applied_until
        snapshot = Snapshot(
            position,
            self.store.segments.times,
            self.store.find_unsaved_since(position),
            [*self.store.list_unsaved(), *state.to_facts()],
            self.store.list_index(),
            [mark._replace(max_offsets=dict(mark.max_offsets)) for mark in self.store.segments.marks],
            {
                segment: spliced._replace(ends=dict(spliced.ends))
                for segment, spliced in self.store.segments.spliced.items()
            },
            self.store.staged.list_index(),
        )
        return SnapshotJob(self._log, self._files, self._snapshots, snapshot, cut, self._take_over)

    def _take_over(self, snapshot: Snapshot) -> None:
        """Starts the next replay at a written snapshot, and deletes the files that nothing refers to any more."""
        self._snapshot_position = snapshot.position
        self.store.segments.forget_before(self._log.begin)
        self._log_reader.forget_before(self._log.begin)
        self._remove_unused_files()

    def _remove_unused_files(self) -> None:
        index = self.store.list_index()
        saved = (chunk for entry in index for chunk in entry.saved)
        self._files.remove_all_but({chunk.location.file_number for chunk in saved if isinstance(chunk, SavedChunk)})

    def _load(self, queue: MessageQueue, chunk: SavedChunk) -> pa.RecordBatch:
        """Returns the rows of a saved chunk; those of a damaged chunk are read from the log.

        Raises CorruptLog when the log does not have them either.
        """
        try:
            return self._files.load(chunk.location)
        except DamagedChunk as error:
            where = self._files.describe(chunk.location)
            self._report(f"{where} is damaged at offset {chunk.location.offset}: {error}; read from the log instead")
            rows = rebuild_rows(self._log, queue, chunk, self.store.bounds(queue).min_offset)
            self._files.cache(chunk.location, rows)
            return rows

    def _read_message(self, message: LoggedMessage) -> pa.RecordBatch:
        """Returns the rows of a message in the log. Raises CorruptLog when it is damaged."""
        return self._files.load_message(message, self._log_reader.read)

    # --- retention -----------------------------------------------------------------------------------------------

    def expire(self, limits: RetentionLimits, now_ms: int) -> Cut | None:
        """Decides what may be deleted; None when nothing may."""
        closed, store = self._list_closed_segments(), self.store
        ends_with_messages = store.segments.has_messages
        position = find_cut(closed, self._applied_until, limits, now_ms, ends_with_messages=ends_with_messages)
        if position is None:
            return None
        if self._find_lack_of_room() is not None:
            position = closed[0].end  # one segment at a time: pending messages are stored again in the space left
        is_too_much = limits.log_bytes_max is not None and self._applied_until - closed[0].base > limits.log_bytes_max
        stage_ids = store.staged.find_before(position)
        return Cut(position, store.find_min_offsets_at(position), stage_ids, limits.name(is_too_much))

    def _list_closed_segments(self) -> list[ClosedSegment]:
        """Returns the segments before the newest one, with the newest times of writing at their ends."""
        find_written_ms = self.store.segments.find_newest_written_ms
        aged = ((segment, find_written_ms(*segment)) for segment in self._log.segments())
        return [ClosedSegment(*segment, written_ms) for segment, written_ms in aged if written_ms is not None]

    def removal_job(self, state: Snapshotted, cut: Cut) -> Job | None:
        """Returns the job that deletes what lies before the cut, after a snapshot that needs none of it."""
        return self._snapshot_job(state, cut.position)
