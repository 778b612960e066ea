"""``rmqpull groups``: lists consumer groups."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import click

from rmqpull_client.cli.frame import OnceCommand, as_json
from rmqpull_client.cli.output import show
from rmqpull_client.cli.servers import connected
from rmqpull_client.model import GroupProgress, count_in_flight

if TYPE_CHECKING:
    from rmqpull_client.transports.port import BrokerClient


@click.command(cls=OnceCommand, examples=["rmqpull groups", "rmqpull groups --names", "rmqpull groups --json"])
@click.option("--names", is_flag=True, help="Only the names.")
@as_json
@connected
def command(client: BrokerClient, names: bool, as_json: bool) -> None:
    """List the consumer groups, with the topics that they consume and their lag."""
    groups = client.list_groups()
    rows: list[dict[str, Any]] = [{"group": group} for group in groups]
    if not names:
        progress = defaultdict[str, list[GroupProgress]](list)
        for entry in client.query_progress(groups):
            progress[entry.group].append(entry)
        for row in rows:
            own = progress[row["group"]]
            row |= {"topics": sorted({entry.queue.topic for entry in own}), "lag": sum(entry.lag for entry in own)}
            row["inFlight"] = count_in_flight(own)
    columns = ("group",) if names else ("group", "topics", "lag", "inFlight")
    show(rows, columns, as_json=as_json, nothing=f"no consumer groups at {client.endpoints}")
