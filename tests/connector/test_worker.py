"""How a Python worker of Spark prepares for its tasks."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import gc
from pyspark_rmqpull.worker import prepare_worker

prepare_worker()
frozen = gc.get_freeze_count()
held = [[] for _ in range(1_000)]
prepare_worker()
print(frozen > 10_000, gc.get_freeze_count() == frozen)
"""


@pytest.mark.processes
def test_the_first_task_freezes_the_loaded_modules_and_later_tasks_freeze_nothing() -> None:
    ended = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.split() == ["True", "True"]
