"""Arrow without pandas and NumPy, for a process that is the broker's own.

pyarrow imports both, if they are installed, to know their types when it sees them. The broker never shows it any: it
would pay 0.3 s and 50 MB for nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

LEFT_OUT = ("pandas", "numpy")


class _Absent:
    """Finds nothing of what is left out."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> None:
        if name in LEFT_OUT:
            raise ModuleNotFoundError(f"{name} is left out here", name=name)


def leave_out_numpy() -> None:
    """Makes this process run as if neither pandas nor NumPy were installed, whoever imports pyarrow, and when.

    To be called before anything else is imported, and only by a process that is the broker's own: a program that embeds
    a broker may want pyarrow to make data frames.
    """
    sys.meta_path.insert(0, _Absent())
