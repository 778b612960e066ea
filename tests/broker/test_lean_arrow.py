"""Arrow without pandas and NumPy. In processes of their own: what pyarrow has looked for once it does not look for
again."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pandas")

BEGIN = "import sys; from rmqpull_broker.lean_arrow import LEFT_OUT, load_lean_arrow; "
END = (
    "import rmqpull_broker.assembly, pyarrow as pa; "
    "print([name in sys.modules for name in LEFT_OUT], pa.array([1, None]).null_count)"
)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (BEGIN + END, "[True, True] 1"),  # else this module has no purpose
        (BEGIN + "load_lean_arrow(); " + END, "[False, False] 1"),
        (BEGIN + "load_lean_arrow(); import pandas; " + END, "[True, True] 1"),  # others find them
        (
            BEGIN + "import pandas; load_lean_arrow(); " + END + "; print(len(pa.table({'a': [1]}).to_pandas()))",
            "[True, True] 1\n1",
        ),
    ],
)
def test_both_are_loaded_by_those_who_want_them_alone(program: str, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == said, done.stderr
