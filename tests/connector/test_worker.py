"""What a task does to the process that it runs in."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import gc
from pyspark_rmqpull.worker import settle

settle()
settled = gc.get_freeze_count()
held = [[] for _ in range(1_000)]
settle()
print(settled > 10_000, gc.get_freeze_count() == settled)
"""


@pytest.mark.processes
def test_what_is_loaded_when_the_first_task_begins_is_no_garbage_and_what_comes_later_may_be() -> None:
    ended = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.split() == ["True", "True"]
