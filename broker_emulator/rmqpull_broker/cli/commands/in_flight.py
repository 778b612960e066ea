"""``rmqpull-broker in-flight``: shows what consumers have received and not acknowledged."""

from __future__ import annotations

from typing import Any

import click

from rmqpull_broker.cli.connection import Connection
from rmqpull_broker.cli.frame import connected
from rmqpull_broker.server.times import format_time
from rmqpull_client.cli.completing import complete_groups, complete_topics
from rmqpull_client.cli.frame import OnceCommand, as_json
from rmqpull_client.cli.output import show, show_json
from rmqpull_client.cli.values import QUEUE, QueueName
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc

COUNT_MAX = 1_000
"""As many as the broker lists, whose module would load Arrow."""
_COLUMNS = (
    *("topic", "group", "queue", "queueOffset", "msgId", "tags", "keys"),
    *("attempt", "deliveredAt", "visibleAt"),
)


@click.command(
    cls=OnceCommand,
    examples=["rmqpull-broker in-flight", "rmqpull-broker in-flight orders --group readers --json"],
)
@click.argument("topic", required=False, shell_complete=complete_topics)
@click.option("--group", metavar="GROUP", shell_complete=complete_groups, help="Only messages of this group.")
@click.option("--queue", type=QUEUE, metavar="[BROKER/]ID", help="Only this queue.")
@click.option(
    "-n",
    "--newest",
    "count",
    type=click.IntRange(1, COUNT_MAX),
    default=10,
    show_default=True,
    metavar="N",
    help="Max number of messages to show.",
)
@as_json
@connected
def command(
    connection: Connection, topic: str | None, group: str | None, queue: QueueName | None, count: int, as_json: bool
) -> None:
    """Show the messages that consumers have received and not acknowledged, and when they become visible again.

    Without TOPIC, shows those of all topics. A topic includes its retries. With --json, each message is one line.
    """
    request = rpc.ListInFlightRequest(
        groups=[] if group is None else [group],
        topics=[] if topic is None else [topic],
        broker_name=None if queue is None else queue.broker_name,
        queue_id=None if queue is None else queue.queue_id,
        max_messages=count,
    )
    response = connection.admin("ListInFlight", request)
    rows = [_make_row(entry) for entry in response.messages]
    if as_json:
        for row in rows:
            show_json(row)
    else:
        show(rows, _COLUMNS, as_json=False, nothing="no message is in flight")
    if len(rows) < response.total:
        click.echo(f"showed the first {len(rows)} of {response.total} messages in flight", err=True)


def _make_row(entry: rpc.InFlightMessage) -> dict[str, Any]:
    queue = entry.queue
    return {
        "topic": queue.topic,
        "group": entry.group,
        "brokerName": queue.broker_name,
        "queueId": queue.queue_id,
        "queue": f"{queue.broker_name}/{queue.queue_id}",
        "queueOffset": entry.queue_offset,
        "msgId": entry.message_id or None,
        "tags": entry.tag or None,
        "keys": list(entry.keys),
        "attempt": entry.delivery_attempt,
        "deliveredAt": format_time(entry.delivered_timestamp_ms),
        "visibleAt": format_time(entry.visible_timestamp_ms),
    }
