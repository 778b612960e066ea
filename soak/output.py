"""The rows of the query's output with their batches: only those in files that Spark's file sink lists."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq


class Row(NamedTuple):
    """A message as Spark wrote it, with its batch and file. Rows are in the order of the file."""

    batch_id: int
    file: str
    topic: str
    broker_name: str
    queue_id: int
    offset: int
    msg_id: str
    key: str
    tag: str
    digest: str

    @property
    def queue(self) -> tuple[str, str, int]:
        """The queue of the row."""
        return self.topic, self.broker_name, self.queue_id


_COLUMNS = ("topic", "brokerName", "queueId", "queueOffset", "msgId", "key", "tag", "digest")


def rows(result: Path) -> Iterator[Row]:
    """Yields all rows, batch by batch."""
    for batch_id, files in files_of_batches(result).items():
        for file in files:
            table = pq.read_table(file, columns=list(_COLUMNS))
            columns = [table.column(name).to_pylist() for name in _COLUMNS]
            yield from (Row(batch_id, file.name, *values) for values in zip(*columns, strict=True))


def files_of_batches(result: Path) -> dict[int, list[Path]]:
    """Returns the files that each batch added. Every tenth log repeats the earlier ones."""
    logs = {int(path.name.removesuffix(".compact")): path for path in result.glob("_spark_metadata/[0-9]*")}
    known: set[Path] = set()
    found: dict[int, list[Path]] = {}
    for batch_id, log in sorted(logs.items()):
        lines = log.read_text(encoding="utf-8").splitlines()[1:]  # below the version of the log
        files = [Path(unquote(urlparse(json.loads(line)["path"]).path)) for line in lines]
        found[batch_id] = [file for file in files if file not in known]
        known.update(files)
    return found
