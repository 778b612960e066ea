"""Fixtures: the command line, with a broker that serves in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import Result

from rmqpull_broker.cli import main
from rmqpull_broker.testing import RunningBroker, running_broker
from tests.harness.cli import RunCommand, RunJson, make_runner


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker(topics={"orders": 2, "single": 1}) as running:
        yield running


@pytest.fixture
def run(broker: RunningBroker) -> RunCommand:
    """Runs a command against the broker."""

    def run_command(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return make_runner(env={"RMQPULL_ENDPOINTS": broker.endpoints}).invoke(
            main, list(arguments), input=stdin, prog_name="rmqpull-broker", terminal_width=110
        )

    return run_command


@pytest.fixture
def run_json(run: RunCommand) -> RunJson:
    """Runs a command with ``--json``. Returns the printed document, or the list of documents when there are several."""

    def run_and_read(*arguments: str, stdin: str | bytes | None = None) -> Any:
        result = run(*arguments, "--json", stdin=stdin)
        assert result.exit_code == 0, result.stderr
        documents = [json.loads(line) for line in result.stdout.splitlines()]
        return documents if arguments[0] in ("peek", "in-flight") or "--watch" in arguments else documents[0]

    return run_and_read
