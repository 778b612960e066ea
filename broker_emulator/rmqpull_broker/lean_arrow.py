"""Arrow without pandas and NumPy, for a process that does nothing but serve.

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


def load_lean_arrow() -> None:
    """Makes pyarrow believe that there is neither pandas nor NumPy, for as long as the process lives; everybody else
    still finds them.

    To be called before anything of the core is imported, by a process that is the broker's own: a program that embeds
    one may want pyarrow to make data frames. Does nothing when one of them, or pyarrow, is imported already.
    """
    if any(name in sys.modules for name in (*LEFT_OUT, "pyarrow")):
        return
    absent = _Absent()
    sys.meta_path.insert(0, absent)
    try:
        # NumPy is looked for by both modules, once; pandas by the first value.
        import pyarrow as pa
        import pyarrow.compute

        pa.scalar(0)
    finally:
        sys.meta_path.remove(absent)
