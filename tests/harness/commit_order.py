"""What calls have shown of commits, and the rule that their order must obey.

Once any call has shown a row of a commit, every call sent afterwards finds all of its rows. A call is judged by when
it was sent and when its response was there, both by the clock that all threads share, so a late thread makes the
judgement milder and never wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Offsets = npt.NDArray[np.int64]
"""An offset for each queue, in the order of the test's list of queues."""

NOTHING = -1
"""In ``Look.shown``: no row of this queue."""
UNKNOWN = np.iinfo(np.int64).max
"""In ``Look.until``: the call does not tell where this queue ends."""


class Look(NamedTuple):
    """What one call has told.

    ``shown`` is the offset behind the last row that it shows, ``until`` the offset from which on it finds no row.
    """

    by: str
    sent_ns: int
    received_ns: int
    shown: Offsets
    until: Offsets


class CommitRows(NamedTuple):
    """The first and the last offset that the rows of a commit have in each queue.

    A queue without rows of it has ``UNKNOWN`` and ``NOTHING``.
    """

    first: Offsets
    last: Offsets


def make_look(by: str, sent_ns: int, received_ns: int, ends: Mapping[int, tuple[int, int]], queue_count: int) -> Look:
    """Returns a look at some queues: ``shown`` and ``until`` by the queue's place in the list."""
    shown, until = np.full(queue_count, NOTHING), np.full(queue_count, UNKNOWN)
    for place, told in ends.items():
        shown[place], until[place] = told
    return Look(by, sent_ns, received_ns, shown, until)


def find_commit_rows(numbers: Sequence[npt.NDArray[np.int64]]) -> dict[int, CommitRows]:
    """Returns the rows of each commit. ``numbers`` has, for each queue from offset 0 on, the commit of each row.

    Rows of no commit have a negative number.
    """
    found = dict[int, CommitRows]()
    for place, of_queue in enumerate(numbers):
        for commit in np.unique(of_queue[of_queue >= 0]).tolist():
            rows = found.setdefault(
                commit, CommitRows(np.full(len(numbers), UNKNOWN), np.full(len(numbers), NOTHING, np.int64))
            )
            (offsets,) = np.nonzero(of_queue == commit)
            rows.first[place], rows.last[place] = offsets[0], offsets[-1]
    return found


def find_out_of_order(looks: Sequence[Look], commits: Mapping[int, CommitRows]) -> list[str]:
    """Returns each commit of which a look lacked rows that was sent after another look had shown a row of it."""
    found = []
    sent, received = (np.array([getattr(look, name) for look in looks]) for name in ("sent_ns", "received_ns"))
    shown, until = (np.stack([getattr(look, name) for look in looks]) for name in ("shown", "until"))
    for commit, rows in sorted(commits.items()):
        showing = (shown > rows.first).any(axis=1)
        if not showing.any():
            continue
        first = int(np.flatnonzero(showing)[np.argmin(received[showing])])
        wrong = np.flatnonzero((sent > received[first]) & (until <= rows.last).any(axis=1))
        if len(wrong):
            by = ", ".join(sorted({looks[at].by for at in wrong.tolist()}))
            found.append(
                f"commit {commit}: {looks[first].by} had shown a row of it, and {len(wrong)} of the "
                f"{np.count_nonzero(sent > received[first])} looks sent afterwards lacked rows: {by}"
            )
    return found


def find_torn(looks: Sequence[Look], commits: Mapping[int, CommitRows]) -> list[str]:
    """Returns each commit that some looks show in parts. For looks that must be one picture of all queues."""
    found = []
    shown, until = (np.stack([getattr(look, name) for look in looks]) for name in ("shown", "until"))
    for commit, rows in sorted(commits.items()):
        torn = (shown > rows.first).any(axis=1) & (until <= rows.last).any(axis=1)
        if torn.any():
            found.append(f"commit {commit}: {np.count_nonzero(torn)} of {len(looks)} looks show a part of it")
    return found
