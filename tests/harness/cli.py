"""Commands of rmqpull-broker, and what they print."""

from __future__ import annotations

import re
from typing import Any, Protocol

from click.testing import Result


class RunCommand(Protocol):
    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> Result: ...


class RunJson(Protocol):
    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> Any: ...


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
