"""What all commands of rmqpull have in common: help with examples, flags, what is loaded, and completion."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import click
import pytest

from rmqpull_client.cli import COMMANDS, main
from rmqpull_client.cli.frame import Example
from tests.harness.cli import make_runner


def get_command(name: str) -> Example:
    command = main.get_command(click.Context(main), name) if name else main
    assert isinstance(command, Example)
    return command


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_every_help_ends_with_examples_that_are_valid(name: str) -> None:
    result = make_runner().invoke(main, [*name.split(), "--help"], prog_name="rmqpull")
    assert result.exit_code == 0
    _, _, shown = result.stdout.partition("\nExamples:\n")
    examples = get_command(name).examples
    assert [line.strip() for line in shown.splitlines()] == list(examples) != []
    for example in examples:
        words = shlex.split(example.rpartition(" | ")[2].split(" > ")[0].removeprefix('eval "$(').removesuffix(')"'))
        assert words.pop(0) == "rmqpull"
        root = main.make_context("rmqpull", words)
        _, command, rest = main.resolve_command(root, [*root._protected_args, *root.args])
        assert command is not None
        command.make_context(command.name, list(rest), parent=root)


@pytest.mark.parametrize(("name", "summary"), COMMANDS.items())
def test_the_overview_has_the_first_sentence_of_each_command(name: str, summary: str) -> None:
    assert (get_command(name).help or "").startswith(summary.removesuffix("."))


def test_the_help_of_a_command_is_short_and_that_of_all_names_the_servers() -> None:
    assert "--name-servers" not in make_runner().invoke(main, ["topics", "--help"]).stdout
    shown = make_runner().invoke(main, ["--help"]).stdout
    assert all(flag in shown for flag in ("--name-servers", "--endpoints", "--profile", "RMQPULL_SECRET_KEY"))


@pytest.mark.processes
@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["--help"], ("grpc", "pyarrow", "numpy", "rich", "google.protobuf")),
        (["peek", "--help"], ("grpc", "pyarrow", "numpy", "rich", "google.protobuf")),
        (["--name-servers", "127.0.0.1:1", "--timeout", "0.1", "topics"], ("grpc", "google.protobuf", "pyspark")),
        (["--name-servers", "127.0.0.1:1", "--timeout", "0.1", "peek", "a"], ("grpc", "google.protobuf", "pyspark")),
    ],
)
def test_little_is_loaded(arguments: list[str], unwanted: tuple[str, ...]) -> None:
    code = (
        "import json, sys; from rmqpull_client.cli import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit: pass\n"
        f"print(json.dumps([m for m in {unwanted!r} if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str) -> None:
    result = make_runner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_RMQPULL_COMPLETE" in result.stdout
