"""``rmqpull-broker lag``: shows how far consumer groups are behind, once or repeatedly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click

from rmqpull_broker.cli.connection import Connection
from rmqpull_broker.cli.frame import connected
from rmqpull_broker.cli.rows import PROGRESS_COLUMNS, make_progress_row
from rmqpull_client.cli.frame import OnceCommand, as_json
from rmqpull_client.cli.output import show
from rmqpull_client.cli.watching import watch, watch_options
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc

_COLUMNS = ("group", "topic", "queues", "lag", "inFlight")


@click.command(
    cls=OnceCommand,
    examples=[
        "rmqpull-broker lag",
        "rmqpull-broker lag --group readers --queues",
        "rmqpull-broker lag --watch --interval 5",
    ],
)
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Only this group; may be repeated.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be repeated.")
@click.option("--queues", is_flag=True, help="Show one line per queue instead of one per group and topic.")
@watch_options
@as_json
@connected
def command(
    connection: Connection,
    groups: Sequence[str],
    topics: Sequence[str],
    queues: bool,
    is_watched: bool,
    interval_s: float,
    times: int | None,
    as_json: bool,
) -> None:
    """Show how far consumer groups are behind: the number of messages after their consumer offsets.

    Messages in flight are those that a group has received and not acknowledged. 'peek --in-flight' lists them.

    With --watch --json, each output is one line.
    """
    request = rpc.QueryLagRequest(groups=groups, topics=topics)
    columns = PROGRESS_COLUMNS if queues else _COLUMNS

    def query() -> list[dict[str, Any]]:
        progress = connection.admin("QueryLag", request).progress
        return [make_progress_row(entry) for entry in progress] if queues else _totals(progress)

    if not is_watched:
        show(query(), columns, as_json=as_json, nothing="no group has consumer offsets")
        return
    watch(query, columns, interval_s, times, as_json=as_json)


def _totals(progress: Iterable[rpc.QueueProgress]) -> list[dict[str, Any]]:
    totals: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in progress:
        key = entry.group, entry.queue.topic
        total = totals.setdefault(key, {"group": key[0], "topic": key[1], "queues": 0, "lag": 0, "inFlight": 0})
        total["queues"] += 1
        total["lag"] += entry.lag
        total["inFlight"] += entry.in_flight
    return list(totals.values())
