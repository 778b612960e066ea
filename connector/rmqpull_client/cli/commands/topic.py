"""``rmqpull topic``: shows the queues of a topic."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from rmqpull_client.cli.bounds import query_queues
from rmqpull_client.cli.completing import topic_argument
from rmqpull_client.cli.frame import OnceCommand, as_json
from rmqpull_client.cli.output import describe_count, show, show_json
from rmqpull_client.cli.servers import connected
from rmqpull_client.cli.values import DURATION
from rmqpull_client.timestamps import format_timestamp
from rmqpull_proto.names import TOOLS_GROUP

if TYPE_CHECKING:
    from rmqpull_client.transports.port import BrokerClient

_COLUMNS = ("brokerName", "queueId", "minOffset", "maxOffset", "messages", "rate", "newest")


@click.command(
    cls=OnceCommand,
    examples=["rmqpull topic orders", "rmqpull topic orders --span 1h", "rmqpull topic orders --json"],
)
@topic_argument
@click.option(
    "--span",
    "span_ms",
    type=DURATION,
    metavar="DURATION",
    default="1m",
    show_default=True,
    help="Time before now over which rates are taken.",
)
@as_json
@connected
def command(client: BrokerClient, topic: str, span_ms: int, as_json: bool) -> None:
    """Show a topic: its queues, their offsets, and their rates in messages per second.

    The rate of a queue is what was stored in the span before now, by this machine's clock.
    """
    if not span_ms:
        raise click.UsageError("--span is 0: give a duration, such as 1m")
    queues = query_queues(client, topic)
    since = client.find_offsets_at(dict.fromkeys(queues, time.time_ns() // 1_000_000 - span_ms))
    newest = client.look_at(
        TOOLS_GROUP, {queue: own.max_offset - 1 for queue, own in queues.items() if own.max_offset > own.min_offset}
    )
    rows: list[dict[str, Any]] = []
    for queue, own in queues.items():
        last = newest.get(queue)
        rows.append(
            {
                "topic": topic,
                "brokerName": queue.broker_name,
                "queueId": queue.queue_id,
                "minOffset": own.min_offset,
                "maxOffset": own.max_offset,
                "messages": own.max_offset - own.min_offset,
                "rate": round(max(0, own.max_offset - own.clamp(since[queue])) * 1000 / span_ms, 3),
                "newest": None if last is None else format_timestamp(last.store_ms),
            }
        )
    total = {name: round(sum(row[name] for row in rows), 3) for name in ("messages", "rate")}
    if as_json:
        show_json({"topic": topic, **total, "queues": rows})
        return
    show(rows, _COLUMNS, as_json=False, nothing=f"topic {topic} has no queue that can be read")
    click.echo(f"{describe_count(total['messages'])}, {total['rate']:g} per second", err=True)
