"""What all commands of rmqpull have in common: help with examples, flags, what is loaded, and completion."""

from __future__ import annotations

import errno
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import click
import pyarrow.dataset as ds
import pytest

from rmqpull_broker.testing import RunningBroker
from rmqpull_client.cli import COMMANDS, completion, main
from rmqpull_client.cli.frame import Example
from tests.harness.cli import error_of, make_runner

SLOW = ("grpc", "google.protobuf", "numpy", "pyarrow", "pyspark", "rich")


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
@pytest.mark.parametrize("arguments", [["--help"], ["peek", "--help"]])
def test_the_help_loads_little(arguments: list[str]) -> None:
    assert list_loaded([arguments]) == []


@pytest.mark.processes
def test_commands_that_show_no_messages_load_neither_arrow_nor_grpc(broker: RunningBroker) -> None:
    broker.send("orders", b"0")
    commands = (
        "topics",
        "topics --names",
        "groups",
        "reset readers orders --to earliest --yes",
        "lag",
        "lag readers --topic orders",
    )
    servers = ["--name-servers", broker.remoting_addresses[0]]
    assert list_loaded([[*servers, *command.split()] for command in commands]) == []


@pytest.mark.processes
def test_all_of_a_cluster_works_where_grpc_and_spark_cannot_be_imported(broker: RunningBroker, tmp_path: Path) -> None:
    """Python imports a ``sitecustomize`` at its start, so the processes of the export cannot import them either."""
    broker.send("orders", b"0", b"1")  # to a queue each
    absent = ("grpc", "google.protobuf", "pyspark")
    (tmp_path / "sitecustomize.py").write_text(f"import sys; sys.modules.update(dict.fromkeys({absent!r}))")
    python_path = os.pathsep.join((str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])))
    commands = [
        ["send", "orders", "--body", "2"],
        ["peek", "orders"],
        ["tail", "orders"],
        ["topic", "orders"],
        ["lag", "readers", "--topic", "orders"],
        ["export", "orders", str(tmp_path / "orders"), "--processes", "2"],
    ]
    servers = ["--name-servers", broker.remoting_addresses[0]]
    assert list_loaded([[*servers, *command] for command in commands], {"PYTHONPATH": python_path}) == [
        "numpy",
        "pyarrow",
    ]
    files = [str(file) for file in (tmp_path / "orders").glob("*.parquet")]
    assert len(files) == 2
    assert sorted(ds.dataset(files).to_table(["body"]).column("body").to_pylist()) == [b"0", b"1", b"2"]


def list_loaded(commands: list[list[str]], variables: Mapping[str, str] | None = None) -> list[str]:
    """Runs commands, which must succeed, in one process. Returns which slow packages it has loaded."""
    code = (
        "import json, sys; from rmqpull_client.cli import main\n"
        f"for arguments in {commands!r}: main(arguments, standalone_mode=False)\n"
        f"print(json.dumps([name for name in {SLOW!r} if sys.modules.get(name)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **(variables or {})},
    )
    assert done.returncode == 0, done.stderr
    loaded: list[str] = json.loads(done.stdout.splitlines()[-1])
    return loaded


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str) -> None:
    result = make_runner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_RMQPULL_COMPLETE" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["peek", ""], "'TOPIC': it is empty"),
        (["lag", "a", ""], "'[GROUP]...': it is empty"),
        (["export", "orders", ""], "'FOLDER': it is empty"),
        (["copy", "orders", "copies", "--offsets", ""], "'--offsets': it is empty"),
        (["peek", "orders", "--key", ""], "'--key': it is empty"),
        (["peek", "\udcff"], "'TOPIC': it is not UTF-8"),
        (["send", "orders", "--key", "\udcff"], "'--key': it is not UTF-8"),
        (["--namespace", "\udcff", "topics"], "'--namespace'"),
    ],
)
def test_values_that_no_server_understands_are_refused(arguments: list[str], sentence: str) -> None:
    result = make_runner().invoke(main, ["--endpoints", "127.0.0.1:1", *arguments], prog_name="rmqpull")
    assert sentence in error_of(result, 2)


def test_output_that_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def echo(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(completion, "click", SimpleNamespace(**{**vars(click), "echo": echo}))
    result = make_runner().invoke(main, ["completion", "bash"], prog_name="rmqpull")
    assert error_of(result) == "cannot write the output: No space left on device"
