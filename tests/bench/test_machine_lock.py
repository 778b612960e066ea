"""A benchmark has the machine for itself: it does not start beside a soak or another benchmark, nor do they beside
it.
"""

from __future__ import annotations

import fcntl
import importlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import soak.__main__ as soak_program
from bench.machine_lock import keep_benchmarks_away, measure_alone
from soak.__main__ import main as soak_main

PROGRAMS = ("suite", "gate", "read_costs", "broker_costs")


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A lock file of this test alone, which is unlocked at its end."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    locks: list[int] = []
    take = fcntl.flock

    def noted(lock: int, operation: int) -> None:
        take(lock, operation)
        locks.append(lock)

    monkeypatch.setattr(fcntl, "flock", noted)
    yield tmp_path / "rmqpull-benchmark.lock"
    for held in locks:
        with suppress(OSError):  # closed by the test
            take(held, fcntl.LOCK_UN)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (measure_alone, keep_benchmarks_away),
        (keep_benchmarks_away, measure_alone),
        (measure_alone, measure_alone),
    ],
)
def test_the_second_of_two_programs_is_refused(
    lock: Path, first: Callable[[], None], second: Callable[[], None]
) -> None:
    first()
    with pytest.raises(click.ClickException, match=rf"is running on this machine.* `fuser {lock}` names the process"):
        second()


def test_soaks_run_side_by_side() -> None:
    keep_benchmarks_away()
    keep_benchmarks_away()


def test_a_lock_is_free_again_when_its_process_has_ended(lock: Path) -> None:
    lock.touch()
    with lock.open() as other:
        fcntl.flock(other.fileno(), fcntl.LOCK_EX)
        with pytest.raises(click.ClickException):
            keep_benchmarks_away()
    keep_benchmarks_away()


def fail_if_called(*_: Any, **__: Any) -> Any:
    raise AssertionError("it began")


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_benchmark_begins_beside_a_soak(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = importlib.import_module(f"bench.{name}")
    monkeypatch.setattr(program, "session" if name == "read_costs" else "measured", fail_if_called)
    keep_benchmarks_away()
    result = CliRunner().invoke(program.main, [])
    assert (result.exit_code, result.exception.__class__) == (1, SystemExit)
    assert "A soak or another benchmark is running" in result.output


def test_no_soak_begins_beside_a_benchmark_but_its_schedule_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak_program, "RoundRun", fail_if_called)
    measure_alone()
    result = CliRunner().invoke(soak_main, [])
    assert (result.exit_code, result.exception.__class__) == (1, SystemExit)
    assert "A benchmark is running on this machine" in result.output
    assert CliRunner().invoke(soak_main, ["--dry-run"]).exit_code == 0
