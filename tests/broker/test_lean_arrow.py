"""Arrow without pandas. In processes of their own: what pyarrow has looked for once it does not look for again."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pandas")

BEGIN = "import sys; from rmqpull_broker.lean_arrow import leave_pandas_out; import pyarrow as pa; "
END = "import rmqpull_broker.assembly; print('pandas' in sys.modules, pa.array([1, None]).null_count)"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (BEGIN + END, "True 1"),  # else this module has no purpose
        (BEGIN + "leave_pandas_out(); " + END, "False 1"),
        (BEGIN + "leave_pandas_out(); import pandas; " + END, "True 1"),  # others find it
        (
            BEGIN + "import pandas; leave_pandas_out(); " + END + "; print(len(pa.table({'a': [1]}).to_pandas()))",
            "True 1\n1",
        ),
    ],
)
def test_pandas_is_loaded_by_those_who_want_it_alone(program: str, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == said, done.stderr
