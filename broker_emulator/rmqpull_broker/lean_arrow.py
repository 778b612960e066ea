"""Arrow without pandas, for a process that does nothing but serve.

Whenever pyarrow is first handed a Python object it imports pandas, if that is installed, to know its types when it sees
them. The broker never shows it any: it would pay 0.2 s and 40 MB for nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


class _Absent:
    """Finds no pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"{name} is left out here")


def leave_pandas_out() -> None:
    """Makes pyarrow believe that there is no pandas, for as long as the process lives; everybody else still finds it.

    To be called before anything of the core is imported, by a process that is the broker's own: a program that embeds
    one may want pyarrow to make data frames. Does nothing when pandas is imported already.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    absent = _Absent()
    sys.meta_path.insert(0, absent)
    try:
        pa.scalar(0)  # pyarrow looks for pandas once, here
    finally:
        sys.meta_path.remove(absent)
