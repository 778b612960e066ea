"""``rmqpull-broker clock``: shows the broker's clock, and advances a manual one."""

from __future__ import annotations

from typing import Any

import click

from rmqpull_broker.cli.connection import Connection
from rmqpull_broker.cli.frame import connected
from rmqpull_broker.server.times import format_time
from rmqpull_client.cli.frame import Group, as_json
from rmqpull_client.cli.output import show_json
from rmqpull_client.cli.values import DURATION, TIME
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


@click.group(cls=Group, examples=["rmqpull-broker clock show", "rmqpull-broker clock advance 1h"])
def command() -> None:
    """Show the broker's clock, or advance a manual one."""


@command.command(examples=["rmqpull-broker clock show", "rmqpull-broker clock show --json"])
@as_json
@connected
def show(connection: Connection, as_json: bool) -> None:
    """Show the time of the broker's clock, and whether the clock is manual.

    Also reports if messages are from the future, because the clock was ahead when they were stored.
    """
    response = connection.admin("GetClock", rpc.GetClockRequest())
    kind, newest_ms = "manual" if response.is_manual else "system", response.newest_store_ms
    note = f" ({kind} clock)"
    if newest_ms > response.now_ms:
        note += f"\nthe newest message is from the future: its store time is {format_time(newest_ms)}"
    newest = format_time(newest_ms) if newest_ms else None
    _print_time(response.now_ms, as_json, {"clock": kind, "newestStoreTime": newest}, note)


@command.command(
    examples=["rmqpull-broker clock advance 1h30m", "rmqpull-broker clock advance --to 2013-01-31T12:00:00Z"]
)
@click.argument("duration", type=DURATION, required=False)
@click.option("--to", type=TIME, metavar="TIME", help="Advance to this time instead of by DURATION.")
@as_json
@connected
def advance(connection: Connection, duration: int | None, to: int | None, as_json: bool) -> None:
    """Advance the clock of a broker that was started with --clock manual."""
    if (duration is None) is (to is None):
        raise click.UsageError("give either a duration, such as 1h, or --to TIME")
    response = connection.admin("AdvanceClock", rpc.AdvanceClockRequest(by_ms=duration, to_ms=to))
    _print_time(response.now_ms, as_json, {}, "")


def _print_time(now_ms: int, as_json: bool, fields: dict[str, Any], note: str) -> None:
    if as_json:
        show_json({"now": format_time(now_ms), "nowMs": now_ms, **fields})
    else:
        click.echo(format_time(now_ms) + note)
