"""The jobs of the storage's own thread: saving chunks to queue files, and writing snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.names import DELAY_TOPICS
from rmqpull_broker.store.log.commit_log import CommitLog
from rmqpull_broker.store.queues.chunks import FreshChunk, SavedChunk
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues
from rmqpull_broker.store.queues.queue_files import QueueFiles, release_holes
from rmqpull_broker.store.snapshots import Snapshot, Snapshots


class SaveJob:
    """Saves chunks of consume queues to queue files."""

    def __init__(
        self, store: ConsumeQueues, files: QueueFiles, chunks: Sequence[tuple[MessageQueue, FreshChunk]]
    ) -> None:
        self._store = store
        self._files = files
        self._chunks = chunks
        self._saved: list[SavedChunk] = []

    def run(self) -> None:
        """Writes the chunks. Raises OSError; the chunks before the failure are saved."""
        for _, chunk in self._chunks:
            self._saved.append(chunk.saved(self._files.save(chunk.batch)))
        release_holes()

    def finish(self) -> None:
        """Replaces the rows of the saved chunks by their locations.

        The rows stay in the cache while there is room, except delayed messages, which are not read soon.
        """
        for (queue, chunk), saved in zip(self._chunks, self._saved, strict=False):
            if self._store.install(queue, chunk, saved) and queue.topic not in DELAY_TOPICS:
                self._files.cache(saved.location, chunk.batch)


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
