"""What a micro-batch was to write, in the words by which the broker tells it from another of the same number.

The rows count as Spark gives them to the tasks that won, before any of them is found invalid, and whether or not they
were staged: a task that is told that its micro-batch is committed stages nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from rmqpull_client.transports.grpc.producer import CommitRecord

NAMED_LENGTH_MAX = 600
_MODULUS = 1 << 64


class WrittenRows(NamedTuple):
    """The rows of one task: their topics, their number, and the sums of ``row_digest``."""

    topics: frozenset[str]
    row_count: int
    sums: tuple[int, int]


def record_of(tasks: Sequence[WrittenRows], plan: bytes) -> CommitRecord:
    """The record of a micro-batch; neither the order of the tasks nor their number makes a difference."""
    topics = frozenset[str]().union(*(task.topics for task in tasks))
    digest = b"".join((sum(task.sums[place] for task in tasks) % _MODULUS).to_bytes(8, "little") for place in range(2))
    return CommitRecord(plan, destination_of(topics), sum(task.row_count for task in tasks), digest)


def destination_of(topics: frozenset[str]) -> str:
    """The topics in a text of limited length that stands for no other topics."""
    names = sorted(topics)
    text = ", ".join(names)
    if len(text) <= NAMED_LENGTH_MAX:
        return text
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{len(names)} topics, {names[0][:100]} to {names[-1][:100]} ({digest})"
