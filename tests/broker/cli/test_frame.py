"""What all commands have in common: help with examples, flags that are given once, exit codes, and error messages."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.shell_completion import ZshComplete

from rmqpull_broker.cli import CLIENT_COMMANDS, COMMANDS, main
from rmqpull_broker.cli.aliases import ALIASES
from rmqpull_broker.testing import running_broker
from rmqpull_client.cli.frame import Example
from tests.harness.cli import NEWEST_WORDS, RunCommand, make_runner

if TYPE_CHECKING:
    from rmqpull_broker.testing import RunningBroker

NOWHERE = "127.0.0.1:1"


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command below a group, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path}{name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")


ALL = dict(commands(main))
MANUAL = Path(__file__).parents[3] / "docs" / "broker.md"
ASKING = sorted(
    path for path, command in ALL.items() if any(parameter.name == "endpoints" for parameter in command.params)
)


@pytest.mark.parametrize("path", ["", *ALL])
def test_every_help_ends_with_examples(path: str) -> None:
    result = make_runner().invoke(main, [*path.split(), "--help"], prog_name="rmqpull-broker")
    assert result.exit_code == 0
    _, _, examples = result.stdout.partition("\nExamples:\n")
    lines = examples.splitlines()
    assert lines
    assert all("rmqpull-broker" in line for line in lines)


@pytest.mark.parametrize("path", ["", *(path for path in ALL if path not in CLIENT_COMMANDS)])
def test_every_example_is_a_valid_command(path: str) -> None:
    command = ALL.get(path, main)
    assert isinstance(command, Example)
    for example in command.examples:
        for part in example.split(" | "):
            words = shlex.split(part.split(" > ")[0].removeprefix('eval "$(').removesuffix(')"'))
            assert words.pop(0) == "rmqpull-broker"
            called: click.Command = main
            context = click.Context(main, info_name="rmqpull-broker")
            while isinstance(called, click.Group) and words:
                _, found, words = called.resolve_command(context, words)
                assert found is not None
                called = found
            called.make_context(called.name, list(words), parent=context)


@pytest.mark.parametrize(("name", "summary"), COMMANDS.items())
def test_the_overview_has_the_first_sentence_of_each_command(name: str, summary: str) -> None:
    assert (ALL[name].help or "").startswith(summary.removesuffix("."))


@pytest.mark.processes
def test_help_needs_neither_grpc_nor_arrow() -> None:
    code = (
        "import json, sys; from rmqpull_broker.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(json.dumps([m for m in ('grpc', 'pyarrow', 'rich', 'google.protobuf') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_commands_that_call_a_broker_have_endpoints_and_a_timeout() -> None:
    told = re.search(
        r"^- (.*?) need no running broker. Every other command calls", MANUAL.read_text("utf-8"), re.MULTILINE
    )
    assert told, f"{MANUAL.name} does not say which commands need no broker"
    offline = set(re.findall(r"`([a-z ]+)`", told[1]))
    groups = {path for path, command in ALL.items() if isinstance(command, click.Group)}
    assert set(ASKING) == set(ALL) - groups - offline
    for path in ASKING:
        assert {parameter.name for parameter in ALL[path].params} >= {"endpoints", "timeout"}


@pytest.mark.parametrize(
    "path", sorted(path for path in ALL if path.endswith(("list", "describe", "show", "dump", "verify")))
)
def test_every_command_that_prints_a_table_prints_json_too(path: str) -> None:
    assert "as_json" in {parameter.name for parameter in ALL[path].params}


@pytest.mark.parametrize("endpoints", [NOWHERE, "no-such-host.invalid:8081"])
def test_an_unreachable_broker_ends_with_exit_code_3(endpoints: str) -> None:
    result = make_runner().invoke(main, ["client", "list", "--endpoints", endpoints])
    assert result.exit_code == 3
    assert result.stderr == (f"Error: no broker answers at {endpoints}; start one, or set --endpoints\n")


def test_a_refusal_of_the_broker_is_printed_with_exit_code_1(run: RunCommand) -> None:
    result = run("topic", "describe", "unknown")
    assert (result.exit_code, result.stderr) == (1, "Error: topic[unknown] not exist, apply first please!\n")


def test_a_call_that_is_not_answered_in_time_ends_with_exit_code_3() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoints = "{}:{}".format(*silent.getsockname())
        result = make_runner().invoke(main, ["client", "list", "--timeout", "0.05", "--endpoints", endpoints])
    assert result.exit_code == 3
    assert "did not answer ListClients within 0.05 s; set a longer --timeout" in result.stderr


def test_the_error_for_a_disabled_service_names_the_flag_that_enables_it() -> None:
    with running_broker(extensions="none") as broker:
        result = make_runner().invoke(main, ["client", "list", "--endpoints", broker.endpoints])
    assert result.exit_code == 1
    assert "does not serve ListClients" in result.stderr
    assert "--extensions admin" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(
            ["--endpoints", "nowhere"],
            "(env var: 'RMQPULL_ENDPOINTS'): 'nowhere' is not an address: use HOST:PORT",
            marks=NEWEST_WORDS,
        ),
        (["--endpoints", "h:0"], "'h:0' is not an address"),
        (["--timeout", "0"], "'0' is not a number of seconds above 0"),
        (["--timeout", "soon"], "'soon' is not a number of seconds"),
        (["--json", "--json"], "--json is given 2 times: give it once"),
        pytest.param(["--jsn"], "No such option '--jsn'. Did you mean '--json'?", marks=NEWEST_WORDS),
    ],
)
def test_wrong_usage_ends_with_exit_code_2(arguments: list[str], sentence: str) -> None:
    result = make_runner().invoke(main, ["client", "list", *arguments])
    assert result.exit_code == 2
    assert sentence in result.stderr


@pytest.mark.parametrize("word", ["topix", "pek", "updateTopics"])
def test_an_unknown_command_is_refused(word: str) -> None:
    result = make_runner().invoke(main, [word])
    assert result.exit_code == 2
    assert f"No such command '{word}'." in result.stderr


@pytest.mark.processes
def test_a_reader_of_the_output_that_leaves_causes_no_traceback(broker: RunningBroker, run: RunCommand) -> None:
    run("send", "orders", "--format", "lines", stdin="x\n" * 3_000)
    command = f"{sys.executable} -m rmqpull_broker peek orders --json -n 3000 --endpoints {broker.endpoints}"
    done = subprocess.run(f"{command} | head -n 1", shell=True, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)["body"] == "x"
    assert done.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str) -> None:
    result = make_runner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_RMQPULL_BROKER_COMPLETE" in result.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("rmqpull-broker to", {"topic", "topics"}),
        ("rmqpull-broker topic d", {"describe", "delete"}),
        ("rmqpull-broker topic describe ord", {"orders"}),
        ("rmqpull-broker group describe rea", {"readers"}),
        ("rmqpull-broker lag rea", {"readers"}),
        ("rmqpull-broker peek --j", {"--json"}),
    ],
)
def test_a_shell_completes_commands_flags_topics_and_groups(
    run: RunCommand, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, words: str, expected: set[str]
) -> None:
    monkeypatch.setenv("RMQPULL_ENDPOINTS", broker.endpoints)
    run("group", "create", "readers")
    _, *complete, incomplete = words.split()
    completion = ZshComplete(main, {}, "rmqpull-broker", "_RMQPULL_BROKER_COMPLETE")
    items = completion.get_completions(complete, incomplete)
    assert {item.value for item in items} == expected


def test_aliases_work_and_are_not_listed() -> None:
    assert not set(ALIASES) & set(ALL)
    for name in ALIASES:
        assert make_runner().invoke(main, [name, "--help"]).exit_code == 0
