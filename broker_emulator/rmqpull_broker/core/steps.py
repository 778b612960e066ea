"""Long work in steps: a generator yields after each step, so that its caller can do other work in between.

It yields None, or a part of its result. What it reads may change between two steps, so it walks through a copy.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol, TypeVar


class Sortable(Protocol):
    """What can be sorted."""

    def __lt__(self, other: Any, /) -> bool: ...


T = TypeVar("T")
S = TypeVar("S", bound=Sortable)
R = TypeVar("R")

Steps = Generator[None, None, R]
"""Steps that only end with a result: ``result = yield from steps``."""

STEP_ENTRIES = 512
"""Entries of a table per step, if they are only read."""
_SORTED_AT_ONCE = 4_096


def walk(entries: Iterable[T]) -> Iterator[list[T]]:
    """Yields ``entries`` in pieces of one step each. A table is copied first; an iterator is consumed as it goes."""
    source = entries if isinstance(entries, Iterator) else iter(list(entries))
    while piece := list(islice(source, STEP_ENTRIES)):
        yield piece


def sort_in_steps(entries: Iterable[S]) -> Steps[list[S]]:
    """Returns the entries, sorted."""
    copied = list(entries)
    runs = []
    for at in range(0, len(copied), _SORTED_AT_ONCE):
        runs.append(sorted(copied[at : at + _SORTED_AT_ONCE]))
        yield
    if len(runs) < 2:
        return runs[0] if runs else []
    merged, found = heapq.merge(*runs), list[S]()
    while piece := list(islice(merged, STEP_ENTRIES)):
        found += piece
        yield
    return found
