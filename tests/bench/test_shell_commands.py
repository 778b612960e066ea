"""What is measured of a command, and which commands do not count."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.comparison import Mismeasured
from bench.shell_commands import run_rmqpull

pytestmark = pytest.mark.processes
NOBODY = "127.0.0.1:1"


def test_a_command_has_its_first_line_and_its_times(tmp_path: Path) -> None:
    ran = run_rmqpull(NOBODY, tmp_path, "--help")
    assert ran.first_line.startswith("Usage: rmqpull")
    assert 0 < ran.first_output_s <= ran.whole_s
    assert ran.cpu_s > 0


def test_a_command_that_fails_does_not_count(tmp_path: Path) -> None:
    with pytest.raises(Mismeasured, match=r"the rmqpull printed nothing(?s:.*)No such command 'topic-list'"):
        run_rmqpull(NOBODY, tmp_path, "topic-list")
