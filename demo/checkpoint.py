"""What Spark leaves on disk about a streaming query: its micro-batches, and which files belong to the result.

Read from outside, while the query runs and after it was killed: files are believed, not what a process says of itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class MicroBatch:
    """One micro-batch: what it reads of each queue, from `start` (inclusive) until `end` (exclusive)."""

    batch_id: int
    start: dict[int, int]
    end: dict[int, int]


def planned(checkpoint: Path) -> list[int]:
    """Micro-batches that Spark has written down, in order; it does so before it reads them."""
    return _numbered(checkpoint / "offsets")


def committed(checkpoint: Path) -> list[int]:
    """Micro-batches that are finished."""
    return _numbered(checkpoint / "commits")


def unfinished(checkpoint: Path) -> int | None:
    """The micro-batch that is running, or that was when its process died."""
    open_batches = set(planned(checkpoint)).difference(committed(checkpoint))
    return max(open_batches, default=None)


def source_offsets(checkpoint: Path, batch_id: int) -> str:
    """Where a micro-batch ends, as the source wrote it: the third line, after a version and Spark's own metadata."""
    return (checkpoint / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()[2]


def micro_batches(checkpoint: Path, topic: str) -> list[MicroBatch]:
    """Every planned micro-batch; the first begins at 0, each other one where the one before it ends."""
    found: list[MicroBatch] = []
    start: dict[int, int] = {}
    for batch_id in planned(checkpoint):
        end = _queue_offsets(source_offsets(checkpoint, batch_id), topic)
        found.append(MicroBatch(batch_id, start, end))
        start = end
    return found


def listed_files(result: Path) -> set[str]:
    """Names of the files that the sink's own log counts as result. What else is there, a killed micro-batch left."""
    names: set[str] = set()
    for log in result.glob("_spark_metadata/[0-9]*"):
        lines = log.read_text(encoding="utf-8").splitlines()[1:]  # the first one is the version of the log
        names.update(Path(json.loads(line)["path"]).name for line in lines)
    return names


def orphan_files(result: Path) -> set[str]:
    """Names of the data files that no finished micro-batch owns."""
    files = {path.name for path in result.glob("part-*.parquet")}
    # Afterwards, so that a file that is listed in between is not taken for an orphan.
    return files.difference(listed_files(result))


def _numbered(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit())


def _queue_offsets(text: str, topic: str) -> dict[int, int]:
    brokers = json.loads(text)["offsets"][topic]
    if len(brokers) != 1:
        raise ValueError(f"One broker is expected, but the checkpoint names {', '.join(brokers)}.")
    (queues,) = brokers.values()
    return {int(queue_id): offset for queue_id, offset in queues.items()}
