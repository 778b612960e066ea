"""Rows that say which commit they belong to, and the judgement of what a broker has of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

HEAD = np.dtype([("writer", "<i4"), ("number", "<i4"), ("index", "<i4")])
BODY_BYTES = 100
"""A body has a head, and zeros up to this size."""

Heads = npt.NDArray[np.void]
"""The heads of rows."""


class Commit(NamedTuple):
    """A commit by its writer and number. A single message is a commit of one row."""

    writer: int
    number: int


def make_bodies(commit: Commit, first: int, count: int) -> pa.BinaryArray:
    """Returns the bodies of ``count`` rows of a commit, from index ``first`` on."""
    bodies = np.zeros((count, BODY_BYTES), np.uint8)
    heads = np.empty(count, HEAD)
    heads["writer"], heads["number"] = commit
    heads["index"] = np.arange(first, first + count)
    bodies[:, : HEAD.itemsize] = heads.view(np.uint8).reshape(count, HEAD.itemsize)
    offsets = np.arange(count + 1, dtype=np.int32) * BODY_BYTES
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(bodies)])


def read_heads(bodies: pa.BinaryArray) -> Heads:
    """Returns the heads of rows. Raises ValueError for other bodies."""
    texts = bodies.to_pylist()
    if any(len(text) != BODY_BYTES for text in texts):
        raise ValueError(f"a body does not have {BODY_BYTES} bytes")
    whole = np.frombuffer(b"".join(texts), np.uint8).reshape(-1, BODY_BYTES)
    return np.ascontiguousarray(whole[:, : HEAD.itemsize]).view(HEAD).reshape(-1)


@dataclass
class Ledger:
    """What writers have tried to store, and what of it the broker has acknowledged. Threads share it.

    A number is used once. A commit that is begun again, after an attempt without a response, is the same commit.
    """

    totals: dict[Commit, int] = field(default_factory=dict)
    acknowledged: set[Commit] = field(default_factory=set)
    dropped: set[Commit] = field(default_factory=set)
    """Commits that must never be seen: their stages are dropped."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, commit: Commit, total: int) -> None:
        """Records that a commit of so many rows may be stored from now on."""
        with self.lock:
            self.totals[commit] = total

    def acknowledge(self, commit: Commit) -> None:
        """Records that the broker has stored it."""
        with self.lock:
            self.acknowledged.add(commit)

    def drop(self, commit: Commit) -> None:
        """Records that the broker has dropped it."""
        with self.lock:
            self.dropped.add(commit)


class Judge:
    """Counts the rows that were read, each offset once, and finds what is lost, doubled or there in part."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seen: dict[Commit, npt.NDArray[np.bool_]] = {}
        self._whole: set[Commit] = set()
        self._findings: list[str] = []
        self.rows = 0

    def add(self, heads: Heads) -> None:
        """Adds rows that were read for the first time."""
        self.rows += len(heads)
        keys = np.stack([heads["writer"], heads["number"]], axis=1)
        for writer, number in np.unique(keys, axis=0).tolist():
            indexes = heads["index"][(keys == (writer, number)).all(axis=1)]
            self._add_rows(Commit(writer, number), indexes)

    def _add_rows(self, commit: Commit, indexes: npt.NDArray[np.int32]) -> None:
        total = self._ledger.totals.get(commit)
        if total is None or commit in self._ledger.dropped:
            self._findings.append(f"{commit}: {len(indexes)} rows, which nobody has committed")
            return
        if commit in self._whole:
            self._findings.append(f"{commit}: {len(indexes)} rows are there twice")
            return
        seen = self._seen.setdefault(commit, np.zeros(total, np.bool_))
        repeated = int(seen[indexes].sum()) + len(indexes) - len(np.unique(indexes))
        if repeated:
            self._findings.append(f"{commit}: {repeated} rows are there twice")
        seen[indexes] = True
        if seen.all():
            self._whole.add(commit)
            del self._seen[commit]

    def judge(self) -> Iterator[str]:
        """Yields what is wrong, when all that can be read was added and nothing is being written."""
        yield from self._findings
        self._findings = []
        for commit, seen in self._seen.items():
            if commit not in self._ledger.acknowledged:
                yield f"{commit}: {seen.sum()} of {len(seen)} rows can be read, of a commit without a response"
        for commit in self._ledger.acknowledged - self._whole:
            seen = self._seen.get(commit, np.zeros(0, np.bool_))
            yield f"{commit}: {seen.sum()} of {self._ledger.totals[commit]} rows can be read, and it was acknowledged"
