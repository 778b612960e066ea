"""Speculative attempts are counted in Spark's event log."""

from __future__ import annotations

import json
from pathlib import Path

from soak.cluster import count_speculative


def event(name: str, speculative: bool, reason: str = "") -> str:
    told = {"Event": f"SparkListener{name}", "Task Info": {"Task ID": 1, "Speculative": speculative}}
    if reason:
        told["Task End Reason"] = {"Reason": reason}
    return json.dumps(told, separators=(",", ":"))


def test_speculative_attempts_and_those_that_finished_first_are_counted(tmp_path: Path) -> None:
    killed_driver = [
        event("TaskStart", False),
        event("TaskStart", True),
        event("TaskEnd", False, "Success"),
        event("TaskEnd", True, "TaskKilled"),
        event("TaskStart", True),
        event("TaskEnd", True, "Success")[:-20],  # the last line is incomplete
    ]
    (tmp_path / "app-1.inprogress").write_text("\n".join(killed_driver))
    assert count_speculative(tmp_path) == (2, 0)
    (tmp_path / "app-2").write_text("\n".join([event("TaskStart", True), event("TaskEnd", True, "Success"), ""]))
    assert count_speculative(tmp_path) == (3, 1)
