"""The storage of a broker with a data directory: commit log, queue files and snapshots put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.facts import ColumnsStored, Fact, RowsStored
from rmqpull_broker.core.state.names import DELAY_TOPICS
from rmqpull_broker.core.state.ports import Job, LogRange, RetentionLimits, Snapshotted
from rmqpull_broker.core.state.retention import ClosedSegment, find_cut
from rmqpull_broker.store.log.commit_log import SEGMENT_BYTES, CommitLog, Recovery
from rmqpull_broker.store.log.replaying import no_search_for_cycles
from rmqpull_broker.store.log.segments import CorruptLog
from rmqpull_broker.store.queues.chunks import DamagedChunk, FreshChunk, SavedChunk
from rmqpull_broker.store.queues.queue_files import CACHE_BYTES, FILE_BYTES, QueueFiles
from rmqpull_broker.store.queues.queues import ConsumeQueues
from rmqpull_broker.store.queues.rebuilding import rebuilt_rows
from rmqpull_broker.store.snapshots.snapshot import Snapshot
from rmqpull_broker.store.snapshots.snapshots import Snapshots
from rmqpull_broker.store.vfs import FileSystem

BEHIND_FACTOR = 4
"""How many times ``save_bytes`` may be unsaved before writes wait; beyond twice that, messages are refused."""


@dataclass(frozen=True)
class StorageOptions:
    """Limits of a storage, in bytes of log, of rows in memory and of disk; ``syncs_appends`` is SYNC_FLUSH."""

    segment_bytes: int = SEGMENT_BYTES
    syncs_appends: bool = True
    save_bytes: int = 16 << 20
    snapshot_bytes: int = 64 << 20
    free_bytes_min: int = 32 << 20
    queue_file_bytes: int = FILE_BYTES
    cache_bytes: int = CACHE_BYTES


class DiskStorage:
    """Keeps facts in a directory, and in memory no more of the messages than the options say.

    Arguments: the directory; the limits; who is told, in a sentence, of what was lost or found damaged.
    """

    def __init__(
        self, file_system: FileSystem, options: StorageOptions, report: Callable[[str], None] = lambda sentence: None
    ) -> None:
        self._file_system = file_system
        self._options = options
        self._report = report
        self._log = CommitLog(
            file_system,
            options.segment_bytes,
            syncs_appends=options.syncs_appends,
        )
        self._files = QueueFiles(file_system, options.queue_file_bytes, options.cache_bytes)
        self._snapshots = Snapshots(file_system, report)
        self._snapshot_position = 0
        self._applied_until = 0
        self._snapshot_is_next = False
        # Where the log is to be cut: at a position, or, when all of it may go, where the next write begins.
        self._cut: int | None = None
        self._cuts_at_next_write = False
        self.store = ConsumeQueues(self._load)

    # --- recovery ------------------------------------------------------------------------------------------------

    def recover(self, state: Snapshotted) -> Recovery:
        """Brings an empty state, whose message store is ``store``, to the end of the log. To be called once, first.

        Raises CorruptLog when acknowledged records are damaged, missing or of another format.
        """
        snapshot = next(self._snapshots.read(), None)
        if snapshot is not None:
            self._restore(state, snapshot)
        elif self._log.begin > 0:
            raise CorruptLog(
                f"the log begins at position {self._log.begin} in {self._file_system.describe('')}, and no snapshot "
                "tells what was before; restore a *.snapshot file from a copy"
            )

        def apply(facts: list[Fact], written: LogRange) -> None:
            self.applying(written)
            state.apply(facts)
            self._save_if_due()

        with no_search_for_cycles():
            recovery = self._log.recover(apply, self._snapshot_position)
        self._applied_until = self._log.end
        if recovery.dropped_bytes:
            self._report(
                f"dropped {recovery.dropped_bytes} bytes at the end of {recovery.dropped_from}, taken for a write that "
                "was cut short before it was acknowledged"
            )
        self._remove_unused_files()
        return recovery

    def _restore(self, state: Snapshotted, snapshot: Snapshot) -> None:
        self.store.restore(snapshot.queues, snapshot.marks, snapshot.newest_store_ms)
        segment = snapshot.marks[-1].segment if snapshot.marks else 0
        self.store.applying(LogRange(segment, snapshot.unsaved_since, snapshot.position))
        for fact in snapshot.facts:
            if isinstance(fact, (RowsStored, ColumnsStored)):
                self.store.append(fact)  # the state knows already what became of it
            else:
                state.apply([fact])
        state.newest_store_ms = snapshot.newest_store_ms
        self._snapshot_position = self._applied_until = snapshot.position

    def _save_if_due(self) -> None:
        """Within a recovery nobody waits, and a disk that is too full to save chunks must not end it."""
        if self.store.unsaved_bytes > self._options.save_bytes:
            job = self._save_job()
            try:
                job.run()
            except OSError as error:
                self._report(f"chunks cannot be saved: {error}")
            job.finish()

    # --- the commit log ------------------------------------------------------------------------------------------

    def append(self, groups: Sequence[Sequence[Fact]]) -> LogRange:
        """Keeps every group, in order; when it returns they survive a kill. Raises OSError and keeps none."""
        return self._log.append(groups)

    def sync(self) -> None:
        """Makes everything appended safe from a power cut. Raises OSError."""
        self._log.sync()

    @property
    def is_synced(self) -> bool:
        """Whether there is nothing to sync."""
        return self._log.is_synced

    @property
    def byte_count(self) -> int:
        """Bytes that the commit log holds."""
        return self._log.byte_count

    @property
    def retained_bytes(self) -> int:
        """The bytes that retentionBytes limits."""
        return self.byte_count

    def leave_mark(self) -> None:
        """Says at the end of the log that everything before is acknowledged."""
        self._log.leave_mark()
        self._applied_until = self._log.end

    def applying(self, written: LogRange) -> None:
        """Tells where the facts lie that the state takes in next."""
        self.store.applying(written)
        self._applied_until = written.until_position
        if self._cuts_at_next_write:
            self._cut, self._cuts_at_next_write = written.segment, False

    def close(self) -> None:
        """Lets files and directory go. Raises OSError when what is unsynced cannot be synced."""
        try:
            self._log.close()
        finally:
            self._files.close()
            self._file_system.close()

    # --- queue files and snapshots -------------------------------------------------------------------------------

    @property
    def is_behind(self) -> bool:
        """Whether writes should wait for the job at work."""
        return self.store.unsaved_bytes > BEHIND_FACTOR * self._options.save_bytes

    @property
    def refusal(self) -> str | None:
        """Why messages must be refused. The last free bytes are for what makes room again, and for an orderly stop."""
        if self.store.unsaved_bytes > 2 * BEHIND_FACTOR * self._options.save_bytes:
            return "chunks of consume queues cannot be saved, and no more of them fit in memory"
        return self._lack_of_room()

    def _lack_of_room(self) -> str | None:
        """Why nothing more fits on the disk; None when there is room."""
        least = self._options.free_bytes_min
        try:
            if least and self._file_system.free_bytes() < least:
                return f"less than {least} bytes are free in {self._file_system.describe('')}"
        except OSError as error:
            return str(error)
        return None

    def due_job(self, state: Snapshotted) -> Job | None:
        """Work that should be done now: chunks to save, or a snapshot to take. One job at a time."""
        is_snapshot_due = self._applied_until - self._snapshot_position >= self._options.snapshot_bytes
        # What is saved just before a snapshot need not be in it; but a snapshot must come to its turn.
        if self.store.unsaved_bytes > self._options.save_bytes or is_snapshot_due:
            self._snapshot_is_next = is_snapshot_due and not self._snapshot_is_next
            return self._save_job() if self._snapshot_is_next or not is_snapshot_due else self._snapshot_job(state)
        return None

    def last_job(self, state: Snapshotted) -> Job | None:
        """The snapshot that lets the next start replay nothing."""
        return self._snapshot_job(state) if self._applied_until > self._snapshot_position else None

    def _save_job(self) -> SaveJob:
        self.store.finalize_down_to(self._options.save_bytes // 2)
        return SaveJob(self.store, self._files, self.store.ready())

    def expire(self, limits: RetentionLimits, now_ms: int) -> list[tuple[MessageQueue, int]] | None:
        """Decides which segments may go, and gives the min offsets that queues have without them."""
        store, self._cuts_at_next_write = self.store, False
        if store.segment_has_messages and limits.is_expired(store.newest_store_ms, now_ms):
            self._log.roll_next()
            self._cuts_at_next_write = True
            bounds = ((entry.queue, store.bounds(entry.queue)) for entry in store.index())
            return [(queue, max_offset) for queue, (min_offset, max_offset) in bounds if max_offset > min_offset]
        closed = self._closed_segments()
        if self._lack_of_room() is not None:  # what waits is to be stored again in what is left: one segment at a time
            closed = closed[:1]
        self._cut = find_cut(closed, self._applied_until, limits, now_ms)
        return None if self._cut is None else store.min_offsets_at(self._cut)

    def _closed_segments(self) -> list[ClosedSegment]:
        """The segments before the one that was last written to, with what the mark behind them says."""
        marked = ((segment, self.store.mark_at(segment.end)) for segment in self._log.segments())
        return [ClosedSegment(*segment, mark.newest_store_ms) for segment, mark in marked if mark is not None]

    def removal_job(self, state: Snapshotted) -> Job | None:
        """Removes what was decided to go: after a snapshot that needs none of it."""
        return None if self._cut is None else self._snapshot_job(state, self._cut)

    def _snapshot_job(self, state: Snapshotted, cut: int | None = None) -> SnapshotJob:
        position = self._applied_until
        snapshot = Snapshot(
            position,
            state.newest_store_ms,
            self.store.unsaved_since(position),
            [*self.store.unsaved(), *state.to_facts()],
            self.store.index(),
            [mark._replace(max_offsets=dict(mark.max_offsets)) for mark in self.store.marks],
        )
        return SnapshotJob(self, snapshot, cut)

    def write_snapshot(self, snapshot: Snapshot, cut: int | None) -> None:
        """Syncs what the snapshot speaks of, and then writes it: it claims nothing that the disk does not hold.

        With a cut, removes the snapshots that need the log before it, and then the log before it. Raises OSError.
        """
        self._log.sync()
        self._files.sync()
        self._snapshots.write(snapshot)
        if cut is not None:
            self._snapshots.remove_before(cut)
            self._log.remove_before(cut)

    def snapshot_written(self, snapshot: Snapshot) -> None:
        """From now on the log is replayed from there, and files that nobody refers to are removed."""
        self._snapshot_position = snapshot.position
        self.store.forget_marks_before(self._log.begin)
        self._remove_unused_files()

    def _remove_unused_files(self) -> None:
        index = self.store.index()
        self._files.remove_all_but({chunk.location.file_number for entry in index for chunk in entry.saved})

    def _load(self, queue: MessageQueue, chunk: SavedChunk) -> pa.RecordBatch:
        """The rows of a saved chunk. One that is damaged is made again from the log.

        Raises CorruptLog when that is damaged as well.
        """
        try:
            return self._files.load(chunk.location)
        except DamagedChunk as error:
            where = self._files.describe(chunk.location)
            self._report(f"{where} is damaged at offset {chunk.location.place}: {error}; read from the log instead")
            rows = rebuilt_rows(self._log, queue, chunk, self.store.bounds(queue).min_offset)
            self._files.keep(chunk.location, rows)
            return rows


class SaveJob:
    """Moves ready chunks to queue files."""

    def __init__(
        self, store: ConsumeQueues, files: QueueFiles, ready: Sequence[tuple[MessageQueue, FreshChunk]]
    ) -> None:
        self._store = store
        self._files = files
        self._ready = ready
        self._saved: list[SavedChunk] = []

    def run(self) -> None:
        """Writes the chunks. Raises OSError; those before the failure are saved."""
        for _, chunk in self._ready:
            self._saved.append(chunk.saved(self._files.save(chunk.batch)))

    def finish(self) -> None:
        """Lets the queues forget the rows of the saved chunks; they stay in the cache as long as there is room, unless
        nobody is going to read them soon.
        """
        for (queue, chunk), saved in zip(self._ready, self._saved, strict=False):
            if self._store.install(queue, chunk, saved) and queue.topic not in DELAY_TOPICS:
                self._files.keep(saved.location, chunk.batch)


class SnapshotJob:
    """Writes a snapshot that was taken."""

    def __init__(self, storage: DiskStorage, snapshot: Snapshot, cut: int | None) -> None:
        self._storage = storage
        self._snapshot = snapshot
        self._cut = cut
        self._is_written = False

    def run(self) -> None:
        """Writes it. Raises OSError, and then the snapshot before stays the newest."""
        self._storage.write_snapshot(self._snapshot, self._cut)
        self._is_written = True

    def finish(self) -> None:
        """Goes on from it."""
        if self._is_written:
            self._storage.snapshot_written(self._snapshot)
