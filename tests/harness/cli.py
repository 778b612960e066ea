"""Runs commands of rmqpull-broker, and reads what they print."""

from __future__ import annotations

import re
from typing import Any, Protocol

from click.testing import Result


class RunCommand(Protocol):
    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> Result: ...


class RunJson(Protocol):
    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> Any: ...


def error_of(result: Result, exit_code: int = 1) -> str:
    """The one sentence that a failed command says; above it click may say how the command is used."""
    assert result.exit_code == exit_code, (result.exit_code, result.output)
    assert isinstance(result.exception, SystemExit), result.exception
    *_, last = result.stderr.splitlines()
    assert last.startswith("Error: ")
    return last.removeprefix("Error: ")


def table_of(result: Result) -> list[list[str]]:
    """The cells of a plain table, heads included; no cell holds two blanks."""
    assert result.exit_code == 0, result.stderr
    return [re.split(" {2,}", line.strip()) for line in result.stdout.splitlines()]
