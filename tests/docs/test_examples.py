"""What README and the guides show is run or parsed as it stands, except for what needs Spark or an engine."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.planning.offsets import QueueOffsets
from rmqpull_broker.cli import main
from rmqpull_broker.config import SETTINGS
from rmqpull_broker.config_sources import CONFIG_VARIABLE, name_variable
from rmqpull_broker.testing import running_broker
from rmqpull_client.errors import OptionError
from tests.harness.waiting import WAIT_S

ROOT = Path(__file__).parents[2]
TRIES_MAX = 5


def blocks(document: str, saying: str) -> list[str]:
    """The Python blocks of a document that hold these words."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if saying in block]


def test_the_readme_s_broker_within_a_test(capsys: pytest.CaptureFixture[str]) -> None:
    (embedded,) = blocks("README.md", "running_broker")
    exec(embedded, {})
    assert re.fullmatch(r"127\.0\.0\.1:\d+ \[b'one', b'two'\]\n", capsys.readouterr().out)


@pytest.mark.parametrize("number", range(2))
def test_the_manual_s_broker_within_a_test(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    shown = [block for block in blocks("docs/broker.md", "running_broker") if "SimpleConsumer" not in block]
    exec(shown[number], {})
    assert capsys.readouterr().out


@pytest.mark.processes
def test_the_manual_s_consumer_that_acknowledges(tmp_path: Path) -> None:
    (shown,) = blocks("docs/broker.md", "SimpleConsumer")

    def run() -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "HOME": str(tmp_path)}  # the client writes its log there
        command = [sys.executable, "-c", shown]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT_S, check=False)

    told = run()
    for _ in range(TRIES_MAX - 1):
        if "cannot find client settings" in told.stderr:  # a second was not enough on a busy machine
            told = run()
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines() == re.findall(r"print\(.*\)  # (.*)$", shown, re.MULTILINE)


@pytest.mark.processes
def test_the_manual_s_broker_process(capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = blocks("docs/broker.md", "BrokerProcess")
    exec(shown, {})
    assert re.match(r"127\.0\.0\.1:\d+ \d+\n", capsys.readouterr().out)


def test_the_manual_s_pytest_test() -> None:
    (shown,) = blocks("docs/broker.md", "import pytest")
    names: dict[str, Any] = {}
    exec(shown, names)
    (marker,) = names["test_orders"].pytestmark
    with running_broker(**marker.kwargs) as broker:
        names["test_orders"](broker)


def test_the_manual_s_container_can_be_written_so() -> None:
    (shown,) = blocks("docs/broker.md", "testcontainers")
    compile(shown, "docs/broker.md", "exec")


def test_the_offsets_that_the_guide_takes_from_a_checkpoint_are_taken() -> None:
    text = (ROOT / "docs/writing-details.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\{\"creationIds.*$", text, re.MULTILINE)
    (shown,) = re.findall(r"in the last line, here `(.*)`", text)
    whole = json.loads(line)
    assert QueueOffsets.from_json(whole).to_json() == whole
    assert json.loads(shown) == whole["offsets"]
    given = {"endpoints": "a:1", "topic": "orders", "startingOffsets": shown}
    assert SourceOptions.from_options(given).starting_offsets
    with pytest.raises(OptionError, match="startingOffsets"):
        SourceOptions.from_options({**given, "startingOffsets": line})


def command_lines(document: str) -> list[str]:
    """The calls of the broker's command in a document's indented blocks, in containers and with Docker Compose too."""
    text = (ROOT / document).read_text(encoding="utf-8")
    composed = re.findall(r"^    command: (serve .*)$", text, re.MULTILINE)
    shown = re.findall(r"^    (?:docker run .* )?(rmqpull-broker .*?)(?:\s+#.*)?$", text, re.MULTILINE)
    return [*shown, *(f"rmqpull-broker {command}" for command in composed)]


SHOWN = [
    line
    for document in ("README.md", "docs/broker.md", "docs/broker-settings.md", "docs/client.md")
    for line in command_lines(document)
]


@pytest.mark.parametrize("line", SHOWN)
def test_a_command_line_is_one_that_the_broker_s_command_understands(line: str) -> None:
    words = shlex.split(line)[1:]
    called: click.Command = main
    context = click.Context(main)
    while isinstance(called, click.Group):
        _, found, words = called.resolve_command(context, words)
        assert found is not None
        called = found
    called.make_context(called.name, list(words), parent=context)


def test_a_composed_broker_lets_the_host_change_and_delete_what_exists() -> None:
    """Its peers come through a bridge, so none of them is loopback."""
    text = "".join((ROOT / document).read_text(encoding="utf-8") for document in ("README.md", "docs/broker.md"))
    composed = [
        block for block in re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if "serve" in block
    ]
    assert composed
    assert all(
        re.search(r"^ {4}environment:\n(?: {6}.*\n)* {6}RMQPULL_BROKER_ADMIN_FROM: all$", block, re.M)
        for block in composed
    )


@pytest.mark.parametrize(
    "document", ["README.md", "docs/broker.md", "docs/broker-settings.md", "docs/access.md", "CHANGELOG.md"]
)
def test_each_variable_of_a_setting_exists(document: str) -> None:
    named = re.findall(r"RMQPULL_BROKER_\w+", (ROOT / document).read_text(encoding="utf-8"))
    assert sorted(set(named) - {CONFIG_VARIABLE, *map(name_variable, SETTINGS)}) == []


@pytest.mark.parametrize("line", [line for line in SHOWN if line.startswith("rmqpull-broker fault ")])
def test_a_broker_takes_each_fault_that_is_shown(line: str) -> None:
    with running_broker(topics={"orders": 1}) as broker:
        run = CliRunner(env={"RMQPULL_ENDPOINTS": broker.endpoints}).invoke(main, shlex.split(line)[1:])
        assert run.exit_code == 0, run.stderr
        (report,) = broker.faults.reports()
    assert report.left
