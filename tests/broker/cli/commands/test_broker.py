"""``rmqpull-broker broker`` and ``rmqpull-broker health``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import rmqpull_broker
from rmqpull_broker.cli import main
from tests.harness.broker_processes import StartProcess
from tests.harness.cli import RunCommand, RunJson, make_runner

if TYPE_CHECKING:
    from rmqpull_broker.testing import RunningBroker

NOWHERE = "127.0.0.1:1"


def test_brokers_and_properties_are_shown(run: RunCommand, run_json: RunJson, broker: RunningBroker) -> None:
    shown = run_json("broker", "show")
    assert (shown["endpoints"], shown["version"]) == (broker.endpoints, rmqpull_broker.__version__)
    assert shown["brokers"] == ["broker-a"]
    assert shown["properties"]["fileReservedTime"] == "72"
    assert ["fileReservedTime", "72", "72", "hours"] in [
        line.split() for line in run("broker", "show").stdout.splitlines()
    ]


def test_retention_is_applied_at_once(run: RunCommand) -> None:
    run("send", "single", "--body", "a")
    assert run("broker", "expire").stderr == "deleted 0 messages\n"


def test_a_broker_that_serves_is_healthy(run: RunCommand, broker: RunningBroker) -> None:
    result = run("health")
    assert (result.exit_code, result.stdout) == (0, f"{broker.endpoints}: serving\n")
    assert run("health", "--quiet").output == ""


def test_an_unreachable_broker_is_not_healthy() -> None:
    result = make_runner().invoke(main, ["health", "--endpoints", NOWHERE])
    assert (result.exit_code, result.stderr) == (1, f"{NOWHERE}: not serving (UNAVAILABLE)\n")
    result = make_runner().invoke(main, ["health", "--endpoints", NOWHERE, "--quiet"])
    assert (result.exit_code, result.output) == (1, "")


def test_a_broker_is_configured_by_file_variables_and_flags(
    start_process: StartProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('topic = ["left-out:1"]\n[properties]\nfileReservedTime = 1\nbrokerClusterName = "file"')
    monkeypatch.setenv("RMQPULL_BROKER_TOPIC", "orders:2,single:1")
    monkeypatch.setenv("RMQPULL_BROKER_PROPERTY", "fileReservedTime=2")
    endpoints = start_process(
        "--config", str(file), "--brokers", "broker-b,broker-a", "--property", "traceOn=false"
    ).endpoints

    def shown(*arguments: str) -> Any:
        return json.loads(make_runner().invoke(main, [*arguments, "--json", "--endpoints", endpoints]).stdout)

    broker = shown("broker", "show")
    assert broker["brokers"] == ["broker-a", "broker-b"]
    told = {name: broker["properties"][name] for name in ("fileReservedTime", "brokerClusterName", "traceOn")}
    assert told == {"fileReservedTime": "2", "brokerClusterName": "file", "traceOn": "false"}
    assert [row["topic"] for row in shown("topics")] == ["orders", "single"]
    queues = [(row["brokerName"], row["queueId"]) for row in shown("topic", "orders")["queues"]]
    assert queues == [("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1)]
