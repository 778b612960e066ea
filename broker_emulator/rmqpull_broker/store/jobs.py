"""The jobs of the storage's own thread: saving chunks to queue files, and writing snapshots."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.names import DELAY_TOPICS
from rmqpull_broker.store.log.commit_log import CommitLog
from rmqpull_broker.store.log.log_reader import LogReader
from rmqpull_broker.store.queues.chunks import FreshChunk, Run, SavedChunk
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues
from rmqpull_broker.store.queues.gathering import Gatherer
from rmqpull_broker.store.queues.queue_files import QueueFiles, release_holes
from rmqpull_broker.store.snapshots import Snapshot, Snapshots
from rmqpull_broker.store.vfs import FileSystem


class SaveJob:
    """Saves chunks of consume queues to queue files, and scattered runs as chunks.

    ``chunks`` are saved whole, and ``runs`` until ``bytes_max`` bytes of their rows are saved.
    """

    def __init__(
        self,
        store: ConsumeQueues,
        files: QueueFiles,
        chunks: Sequence[tuple[MessageQueue, FreshChunk]],
        runs: Sequence[tuple[MessageQueue, Run]],
        bytes_max: int,
        file_system: FileSystem,
    ) -> None:
        self._store = store
        self._files = files
        self._chunks = chunks
        self._runs = runs
        self._bytes_max = bytes_max
        self._reader = LogReader(file_system)
        self._gatherer = Gatherer(self._reader.read)
        self._saved: list[SavedChunk] = []
        self._replaced: list[tuple[MessageQueue, list[Run], list[SavedChunk | Run]]] = []

    def run(self) -> None:
        """Writes the chunks. Raises OSError; the chunks before the failure are saved.

        Runs that the log does not have any more are left out, and it is raised at last that they are damaged.
        """
        gathered = defaultdict[MessageQueue, list[SavedChunk]](list)
        try:
            for _, chunk in self._chunks:
                self._saved.append(chunk.saved(self._files.save(chunk.batch)))
            for queue, chunk in self._gatherer.gather(self._runs, self._bytes_max):
                saved = chunk.saved(self._files.save(chunk.batch))
                gathered[queue].append(saved)
        finally:
            self._reader.close()
            self._replaced = list(_replace_runs(self._runs, gathered))
        release_holes()
        if (damage := self._gatherer.damage) is not None:
            raise OSError(str(damage)) from damage

    def finish(self) -> None:
        """Replaces the rows of the saved chunks by their locations.

        The rows stay in the cache while there is room, except delayed messages, which are not read soon.
        """
        for (queue, chunk), saved in zip(self._chunks, self._saved, strict=False):
            if self._store.install(queue, [chunk], [saved]) and queue.topic not in DELAY_TOPICS:
                self._files.cache(saved.location, chunk.batch)
        rests = dict[int, Run]()
        for queue, runs, replacement in self._replaced:
            self._store.install(queue, runs, replacement)
            if isinstance(rest := replacement[-1], Run):
                rests[id(runs[-1])] = rest
        for queue, run in self._gatherer.damaged:
            self._store.leave(queue, rests.get(id(run), run))


def _replace_runs(
    runs: Iterable[tuple[MessageQueue, Run]], gathered: Mapping[MessageQueue, Sequence[SavedChunk]]
) -> Iterator[tuple[MessageQueue, list[Run], list[SavedChunk | Run]]]:
    """Yields neighbouring runs of a queue, and what replaces them: saved chunks, and the rest of the last run."""
    of_queues = defaultdict[MessageQueue, list[Run]](list)
    for queue, run in runs:
        of_queues[queue].append(run)
    for queue, chunks in gathered.items():
        held = of_queues[queue]
        first_offsets = [run.first_offset for run in held]
        for neighbours in _split_neighbours(chunks):
            end = neighbours[-1].first_offset + neighbours[-1].row_count
            begin_at = bisect.bisect_left(first_offsets, neighbours[0].first_offset)
            replaced = held[begin_at : bisect.bisect_left(first_offsets, end)]
            last = replaced[-1]
            rest = [] if end == last.first_offset + last.row_count else [last.without_before(end)]
            yield queue, replaced, [*neighbours, *rest]


def _split_neighbours(chunks: Iterable[SavedChunk]) -> Iterator[list[SavedChunk]]:
    """Yields lists of chunks that follow one another without a gap."""
    found = list[SavedChunk]()
    for chunk in chunks:
        if found and found[-1].first_offset + found[-1].row_count != chunk.first_offset:
            yield found
            found = []
        found.append(chunk)
    yield found


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
