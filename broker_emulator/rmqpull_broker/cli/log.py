"""``rmqpull-broker log``: reads a data directory's commit log while no broker runs."""

from __future__ import annotations

import click

from rmqpull_broker.cli.commands import Group


@click.group(cls=Group, examples=["rmqpull-broker topic list"])
def command() -> None:
    """Read a data directory's commit log while no broker runs."""
