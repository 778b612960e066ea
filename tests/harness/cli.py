"""Commands of rmqpull-broker, and what they print."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import version
from typing import Any, Protocol

import pytest
from click.testing import CliRunner, Result

NEWEST_WORDS = pytest.mark.skipif(
    tuple(map(int, version("click").split(".")[:2])) < (8, 5), reason="an older click says it in other words"
)


class RunCommand(Protocol):
    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> Result: ...


class RunJson(Protocol):
    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> Any: ...


def make_runner(**options: Any) -> CliRunner:
    """Returns a runner of commands that keeps errors apart from the output, as click does by itself from 8.2 on."""
    if "mix_stderr" in inspect.signature(CliRunner).parameters:
        options["mix_stderr"] = False
    return CliRunner(**options)


def error_of(result: Result, exit_code: int = 1) -> str:
    """Returns the error message of a failed command, without the usage that click may print above it."""
    assert result.exit_code == exit_code, (result.exit_code, result.output)
    assert isinstance(result.exception, SystemExit), result.exception
    *_, last = result.stderr.splitlines()
    assert last.startswith("Error: ")
    return last.removeprefix("Error: ")


def table_of(result: Result) -> list[list[str]]:
    """Returns the rows of a printed table, with its heads. No cell contains two spaces in a row."""
    assert result.exit_code == 0, result.stderr
    return [re.split(" {2,}", line.strip()) for line in result.stdout.splitlines()]
