"""The jobs of the storage's own thread: saving chunks to queue files, and writing snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import LoggedMessage, MessageQueue
from rmqpull_broker.core.state.names import DELAY_TOPICS
from rmqpull_broker.store.log.commit_log import CommitLog
from rmqpull_broker.store.log.log_reader import LogReader
from rmqpull_broker.store.log.segments import CorruptLog
from rmqpull_broker.store.queues.chunks import (
    CHUNK_ROWS_MAX,
    FreshChunk,
    Run,
    SavedChunk,
    make_chunk,
    merge_chunks,
)
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues
from rmqpull_broker.store.queues.queue_files import ChunkCache, QueueFiles, release_holes
from rmqpull_broker.store.snapshots import Snapshot, Snapshots
from rmqpull_broker.store.vfs import FileSystem

MESSAGE_BYTES_MAX = 64 << 20
"""The most bytes of messages that a job keeps in memory."""


class SaveJob:
    """Saves chunks of consume queues to queue files, and scattered runs as chunks."""

    def __init__(
        self,
        store: ConsumeQueues,
        files: QueueFiles,
        chunks: Sequence[tuple[MessageQueue, list[FreshChunk | Run]]],
        file_system: FileSystem,
    ) -> None:
        self._store = store
        self._files = files
        self._chunks = chunks
        self._reader = LogReader(file_system)
        # The parts of one message are in many queues.
        self._messages = ChunkCache(MESSAGE_BYTES_MAX)
        self._saved: list[list[SavedChunk]] = []

    def run(self) -> None:
        """Writes the chunks. Raises OSError; the chunks before the failure are saved.

        Runs that the log does not have any more are left out, and it is raised at last that they are damaged.
        """
        damage: CorruptLog | None = None
        try:
            for _, chunks in self._chunks:
                try:
                    self._saved.append([chunk.saved(self._files.save(chunk.batch)) for chunk in self._join(chunks)])
                except CorruptLog as error:
                    self._saved.append([])
                    damage = damage or error
        finally:
            self._reader.close()
            self._messages = ChunkCache(0)
        release_holes()
        if damage is not None:
            raise OSError(str(damage)) from damage

    def _join(self, chunks: Sequence[FreshChunk | Run]) -> Iterator[FreshChunk]:
        """Yields the rows of chunks in chunks of full size."""
        waiting, row_count = list[FreshChunk](), 0
        for chunk in chunks:
            for piece in [chunk] if isinstance(chunk, FreshChunk) else self._read_run(chunk):
                waiting.append(piece)
                row_count += piece.row_count
                if row_count >= CHUNK_ROWS_MAX:
                    yield merge_chunks(waiting)
                    waiting, row_count = [], 0
        if waiting:
            yield merge_chunks(waiting)

    def _read_run(self, run: Run) -> Iterator[FreshChunk]:
        offset = run.first_offset
        for part in run.parts:
            rows = columns.place_rows(part.read(self._read_message), offset, run.store_ms, run.store_host)
            yield make_chunk(offset, rows, run.written)
            offset += part.row_count

    def _read_message(self, message: LoggedMessage) -> pa.RecordBatch:
        rows = self._messages.get(message)
        if rows is None:
            rows = self._reader.read(message)
            self._messages.put(message, rows)
        return rows

    def finish(self) -> None:
        """Replaces the rows of the saved chunks by their locations.

        The rows stay in the cache while there is room, except delayed messages, which are not read soon.
        """
        for (queue, chunks), saved in zip(self._chunks, self._saved, strict=False):
            if not saved:
                self._store.leave(queue, chunks)
            elif self._store.install(queue, chunks, saved) and queue.topic not in DELAY_TOPICS:
                for chunk, its_place in zip(chunks, saved, strict=False):
                    if isinstance(chunk, FreshChunk):
                        self._files.cache(its_place.location, chunk.batch)


class SnapshotJob:
    """Writes a snapshot, and deletes the log before ``cut`` when there is one.

    ``written`` is called on the event loop with the snapshot once it is written.
    """

    def __init__(
        self,
        log: CommitLog,
        files: QueueFiles,
        snapshots: Snapshots,
        snapshot: Snapshot,
        cut: int | None,
        written: Callable[[Snapshot], None],
    ) -> None:
        self._log = log
        self._files = files
        self._snapshots = snapshots
        self._snapshot = snapshot
        self._cut = cut
        self._written = written
        self._is_written = False

    def run(self) -> None:
        """Writes the snapshot. Raises OSError, and then the previous snapshot stays the newest.

        Syncs the log and the queue files first: a snapshot refers only to what is safe on the disk. Then deletes the
        snapshots that need the log before the cut, and only then that part of the log.
        """
        self._log.sync()
        self._files.sync()
        self._snapshots.write(self._snapshot)
        if self._cut is not None:
            self._snapshots.remove_before(self._cut)
            self._log.remove_before(self._cut)
        self._is_written = True

    def finish(self) -> None:
        """Reports the snapshot when it was written."""
        if self._is_written:
            self._written(self._snapshot)
