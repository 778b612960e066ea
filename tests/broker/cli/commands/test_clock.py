"""``rmqpull-broker clock``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from rmqpull_broker.cli import main
from tests.harness.broker_processes import StartProcess
from tests.harness.cli import RunCommand, RunJson, error_of, make_runner


def test_the_systems_clock_is_shown_and_cannot_be_moved(run: RunCommand, run_json: RunJson) -> None:
    shown = run_json("clock", "show")
    assert shown["clock"] == "system"
    assert shown["nowMs"] > 0
    assert "newestStoreTime" in shown
    assert run("clock", "show").stdout.endswith("(system clock)\n")
    assert "start it with --clock manual" in error_of(run("clock", "advance", "1h"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "either a duration, such as 1h, or --to TIME"),
        (["1h", "--to", "2013-01-31T12:00:00Z"], "either a duration, such as 1h, or --to TIME"),
        (["soon"], "'soon' is not a duration"),
    ],
)
def test_an_advance_needs_exactly_one_target(run: RunCommand, arguments: list[str], sentence: str) -> None:
    assert sentence in error_of(run("clock", "advance", *arguments), exit_code=2)


def test_messages_from_the_future_are_told_of(start_process: StartProcess, tmp_path: Path) -> None:
    options = "--data-dir", str(tmp_path), "--topic", "single:1"
    broker = start_process("--clock", "manual:2136-01-31T12:00:00Z", *options)
    make_runner().invoke(main, ["send", "single", "--body", "a", "--endpoints", broker.endpoints])
    broker.stop()
    endpoints = start_process(*options).endpoints
    told = make_runner().invoke(main, ["clock", "show", "--endpoints", endpoints]).stdout.splitlines()
    assert told[0].endswith("(system clock)")
    assert told[1] == "the newest message is from the future: its store time is 2136-01-31T12:00:00.000Z"


def test_a_manual_clock_stands_still_until_it_is_advanced(start_process: StartProcess) -> None:
    endpoints = start_process("--clock", "manual:2013-01-31T12:00:00Z", "--topic", "single:1").endpoints

    def run(*arguments: str) -> Result:
        return make_runner().invoke(main, [*arguments, "--endpoints", endpoints])

    assert run("clock", "show").stdout == "2013-01-31T12:00:00.000Z (manual clock)\n"
    run("send", "single", "--body", "a")
    assert run("clock", "advance", "1h30m").stdout == "2013-01-31T13:30:00.000Z\n"
    assert run("clock", "advance", "--to", "2013-02-01").stdout == "2013-02-01T00:00:00.000Z\n"
    assert "cannot advance the clock by -" in error_of(run("clock", "advance", "--to", "2013-01-01"))
    (message,) = run("peek", "single", "--json").stdout.splitlines()
    assert json.loads(message)["storeTimestamp"] == "2013-01-31T12:00:00.000Z"
