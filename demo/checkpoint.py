"""What Spark has written about a streaming query: its micro-batches, and the files of the result.

It is read from outside, while the query runs and after it was killed: the demo trusts files, not what a process prints.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class MicroBatch:
    """One micro-batch: for each queue, where it starts (inclusive) and ends (exclusive)."""

    batch_id: int
    start: dict[int, int]
    end: dict[int, int]


def planned(checkpoint: Path) -> list[int]:
    """Returns the micro-batches that Spark has planned, in order. It writes each down before it reads it."""
    return _numbered(checkpoint / "offsets")


def committed(checkpoint: Path) -> list[int]:
    """Returns the finished micro-batches, in order."""
    return _numbered(checkpoint / "commits")


def unfinished(checkpoint: Path) -> int | None:
    """Returns the micro-batch that is running, or was when its process died."""
    open_batches = set(planned(checkpoint)).difference(committed(checkpoint))
    return max(open_batches, default=None)


def source_offsets(checkpoint: Path, batch_id: int) -> str:
    """Returns the end of a micro-batch as the source wrote it: the third line, below a version and Spark's metadata."""
    return (checkpoint / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()[2]


def micro_batches(checkpoint: Path, topic: str) -> list[MicroBatch]:
    """Returns every planned micro-batch. The first starts at 0, each other one where the previous one ends."""
    found: list[MicroBatch] = []
    start: dict[int, int] = {}
    for batch_id in planned(checkpoint):
        end = _queue_offsets(source_offsets(checkpoint, batch_id), topic)
        found.append(MicroBatch(batch_id, start, end))
        start = end
    return found


def listed_files(result: Path) -> set[str]:
    """Returns the files that the sink's log lists as the result. A killed micro-batch may have left others."""
    names: set[str] = set()
    for log in result.glob("_spark_metadata/[0-9]*"):
        lines = log.read_text(encoding="utf-8").splitlines()[1:]  # below the version of the log
        names.update(Path(json.loads(line)["path"]).name for line in lines)
    return names


def orphan_files(result: Path) -> set[str]:
    """Returns the data files that belong to no finished micro-batch."""
    files = {path.name for path in result.glob("part-*.parquet")}
    # The log is read last: a file that it lists meanwhile is no orphan.
    return files.difference(listed_files(result))


def _numbered(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit())


def _queue_offsets(text: str, topic: str) -> dict[int, int]:
    brokers = json.loads(text)["offsets"][topic]
    if len(brokers) != 1:
        raise ValueError(f"One broker is expected, but the checkpoint names {', '.join(brokers)}.")
    (queues,) = brokers.values()
    return {int(queue_id): offset for queue_id, offset in queues.items()}
