"""Fixtures: the command line rmqpull, and a broker that it calls by gRPC or by remoting."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from click.testing import Result

from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_client.cli import main
from tests.harness.cli import RunCommand, RunJson, make_runner


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[RunningBroker]:
    """A broker with the system's clock, or a manual one where a module says so."""
    clock: Literal["system", "manual"] = getattr(request, "param", "system")
    with running_broker(topics={"orders": 2, "single": 1}, remoting=True, clock=clock) as running:
        yield running


@pytest.fixture(params=["endpoints", "name servers"])
def servers(request: pytest.FixtureRequest, broker: RunningBroker) -> dict[str, str]:
    """The variable that names the broker."""
    if request.param == "endpoints":
        return {"RMQPULL_ENDPOINTS": broker.endpoints}
    return {"RMQPULL_NAME_SERVERS": broker.remoting_addresses[0]}


ONE_PROCESS = {"export": {"processes": 1}}
"""Defaults of the commands in tests: the processes of an export take a second to start. A flag overrides them."""


@pytest.fixture
def run(servers: dict[str, str]) -> RunCommand:
    """Runs a command against the broker."""

    def run_command(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return make_runner(env=servers).invoke(
            main,
            list(arguments),
            input=stdin,
            prog_name="rmqpull",
            terminal_width=110,
            default_map=ONE_PROCESS,
        )

    return run_command


@pytest.fixture
def run_json(run: RunCommand) -> RunJson:
    """Runs a command with ``--json``. Returns the printed document, or the list of documents where each line is one."""

    def run_and_read(*arguments: str, stdin: str | bytes | None = None) -> Any:
        result = run(*arguments, "--json", stdin=stdin)
        assert result.exit_code == 0, result.stderr
        documents = [json.loads(line) for line in result.stdout.splitlines()]
        return documents if arguments[0] in ("peek", "tail") or "--watch" in arguments else documents[0]

    return run_and_read
