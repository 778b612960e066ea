"""``rmqpull lag``: shows how far consumer groups are behind, once or repeatedly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from rmqpull_client.cli.bounds import query_queues
from rmqpull_client.cli.completing import complete_groups, complete_topics
from rmqpull_client.cli.frame import OnceCommand, as_json
from rmqpull_client.cli.output import show
from rmqpull_client.cli.servers import connected_patiently
from rmqpull_client.cli.watching import watch, watch_options
from rmqpull_client.model import GroupProgress, count_in_flight
from rmqpull_client.timestamps import format_timestamp

if TYPE_CHECKING:
    from rmqpull_client.transports.port import BrokerClient

_COLUMNS = ("group", "topic", "queues", "lag", "inFlight", "consumedUntil")
_QUEUE_COLUMNS = (
    *("group", "topic", "brokerName", "queueId", "consumerOffset", "maxOffset"),
    *("lag", "inFlight", "consumedUntil"),
)


@click.command(
    cls=OnceCommand,
    examples=[
        "rmqpull lag",
        "rmqpull lag readers --queues",
        "rmqpull lag readers --topic orders",
        "rmqpull lag readers --watch --interval 5",
    ],
)
@click.argument("groups", nargs=-1, metavar="[GROUP]...", shell_complete=complete_groups)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Only this topic; may be repeated. With groups it also works where servers do not tell what they consume.",
)
@click.option("--queues", is_flag=True, help="Show one line per queue instead of one per group and topic.")
@watch_options
@as_json
@connected_patiently
def command(
    client: BrokerClient,
    groups: Sequence[str],
    topics: Sequence[str],
    queues: bool,
    is_watched: bool,
    interval_s: float,
    times: int | None,
    as_json: bool,
) -> None:
    """Show how far consumer groups are behind: the number of messages after their consumer offsets.

    Without GROUP, shows all groups. With --watch --json, each output is one line. rmqpull-broker also tells how many
    messages are in flight: received, and not acknowledged.
    """
    if times is not None and not is_watched:
        raise click.UsageError("--times needs --watch")
    columns = _QUEUE_COLUMNS if queues else _COLUMNS

    def query() -> list[dict[str, Any]]:
        progress = _query(client, groups, topics)
        return [_make_row(entry) for entry in progress] if queues else _make_totals(progress)

    if is_watched:
        watch(query, columns, interval_s, times, as_json=as_json)
    else:
        show(query(), columns, as_json=as_json, nothing="no group has consumer offsets")


def _query(client: BrokerClient, groups: Sequence[str], topics: Sequence[str]) -> list[GroupProgress]:
    if groups and topics:
        return [entry for group in groups for topic in topics for entry in _query_topic(client, group, topic)]
    found = client.query_progress(groups or client.list_groups())
    return [entry for entry in found if not topics or entry.queue.topic in topics]


def _query_topic(client: BrokerClient, group: str, topic: str) -> list[GroupProgress]:
    """Returns the progress of a group on a topic, by its consumer offsets and the bounds."""
    bounds = query_queues(client, topic)
    offsets = client.get_consumer_offsets(group, list(bounds))
    return [
        GroupProgress(group, queue, offset, own.max_offset)
        for queue, own in bounds.items()
        if (offset := offsets[queue]) is not None
    ]


def _make_row(entry: GroupProgress) -> dict[str, Any]:
    return {
        "group": entry.group,
        "topic": entry.queue.topic,
        "brokerName": entry.queue.broker_name,
        "queueId": entry.queue.queue_id,
        "consumerOffset": entry.consumer_offset,
        "maxOffset": entry.max_offset,
        "lag": entry.lag,
        "inFlight": entry.in_flight,
        "consumedUntil": format_timestamp(entry.consumed_ms) if entry.consumed_ms > 0 else None,
    }


def _make_totals(progress: Sequence[GroupProgress]) -> list[dict[str, Any]]:
    entries: dict[tuple[str, str], list[GroupProgress]] = {}
    for entry in progress:
        entries.setdefault((entry.group, entry.queue.topic), []).append(entry)
    return [
        {
            "group": group,
            "topic": topic,
            "queues": len(own),
            "lag": sum(entry.lag for entry in own),
            "inFlight": count_in_flight(own),
            "consumedUntil": _find_oldest(own),
        }
        for (group, topic), own in entries.items()
    ]


def _find_oldest(progress: Sequence[GroupProgress]) -> str | None:
    """Returns until when all queues with a lag are consumed."""
    times = [entry.consumed_ms for entry in progress if entry.lag and entry.consumed_ms > 0]
    return format_timestamp(min(times)) if times else None
