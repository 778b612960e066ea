"""What ends a command before its time: one sentence on standard error, and an exit code that scripts can tell apart."""

from __future__ import annotations

import click


class Refused(click.ClickException):
    """The broker answered, and the answer was no. ``code`` is the name of the status code."""

    exit_code = 1

    def __init__(self, sentence: str, code: str = "") -> None:
        super().__init__(sentence)
        self.code = code


class Unreachable(click.ClickException):
    """No broker answered in time; whether it did what was asked is not known."""

    exit_code = 3
