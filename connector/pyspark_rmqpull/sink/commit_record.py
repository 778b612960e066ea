"""The record of a micro-batch, by which the broker recognizes it when its number is repeated.

It has the topics, the count and a digest of the rows, and a digest of the batch's plan, which Spark keeps in the
checkpoint: ``offsets/<N>`` has the end offsets of the sources of batch N, and the time at which it was planned. After a
crash Spark reads that file again, whereas a batch that is planned again gets a new file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rmqpull_client.transports.port import CommitRecord

PLAN_BYTES = 16
DESTINATION_LENGTH_MAX = 600

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_MODULUS = 1 << 64


class WrittenRows(NamedTuple):
    """The rows of one task: their topics, their number, and the sums of ``row_digest``.

    They cover all rows that Spark gave to the winning attempt, including invalid ones, and those that it did not stage
    because the micro-batch was committed already.
    """

    topics: frozenset[str]
    row_count: int
    sums: tuple[int, int]


def make_record(tasks: Sequence[WrittenRows], plan: bytes) -> CommitRecord:
    """Makes the record of a micro-batch, which does not depend on the order or the number of its tasks."""
    topics = frozenset[str]().union(*(task.topics for task in tasks))
    sums = (sum(task.sums[index] for task in tasks) % _MODULUS for index in range(2))
    digest = b"".join(total.to_bytes(8, "little") for total in sums)
    return CommitRecord(plan, name_destination(topics), sum(task.row_count for task in tasks), digest)


def name_destination(topics: frozenset[str]) -> str:
    """Names topics in a text of limited length, which is different for each set of topics."""
    names = sorted(topics)
    text = ", ".join(names)
    if len(text) <= DESTINATION_LENGTH_MAX:
        return text
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{len(names)} topics, {names[0][:100]} to {names[-1][:100]} ({digest})"


def read_plan(location: str | None, query_id: str, batch_id: int) -> bytes:
    """Reads a digest of the plan of a batch that is about to be committed. Empty where it cannot be read.

    The folder counts only if it belongs to the query and the batch is unfinished in it. Spark may resolve a plain path
    on another file system, and then a local folder may be an old one of the same query.
    """
    folder = find_folder(location)
    if folder is None or read_query_id(location) != query_id:
        return b""
    try:
        if (folder / "commits" / str(batch_id)).exists() or (folder / "offsets" / str(batch_id + 1)).exists():
            return b""
        plan = (folder / "offsets" / str(batch_id)).read_bytes()
    except OSError:
        return b""
    return hashlib.blake2b(plan, digest_size=PLAN_BYTES).digest() if plan else b""


def read_query_id(location: str | None) -> str | None:
    """Reads the id of the query from its checkpoint. None where it cannot be read."""
    folder = find_folder(location)
    if folder is None:
        return None
    try:
        query_id = json.loads((folder / "metadata").read_bytes())["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return query_id if isinstance(query_id, str) else None


def find_folder(location: str | None) -> Path | None:
    """The folder of a checkpoint, or None if Python cannot open it: ``s3a://``, ``hdfs://`` and the like.

    The location is the option ``checkpointLocation`` of the write; without it the sink knows no checkpoint. Spark does
    not percent-encode paths, not even in a URI.
    """
    if location is None:
        return None
    scheme = _SCHEME.match(location)
    if scheme is None:
        return Path(location)
    if scheme[0].lower() != "file:":
        return None
    path = location[scheme.end() :]
    if path.startswith("//"):
        host, _, rest = path[2:].partition("/")
        return Path(f"/{rest}") if host in ("", "localhost") else None
    return Path(path)
