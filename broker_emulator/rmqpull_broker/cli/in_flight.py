"""Messages in flight, as ``rmqpull-broker peek --in-flight`` shows them."""

from __future__ import annotations

from typing import Any

import click

from rmqpull_broker.cli.connection import Connection
from rmqpull_broker.server.times import format_time
from rmqpull_client.cli.output import show, show_json
from rmqpull_client.cli.values import QueueName
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc

_COLUMNS = (
    *("topic", "group", "queue", "queueOffset", "msgId", "tags", "keys"),
    *("attempt", "deliveredAt", "visibleAt"),
)


def show_in_flight(
    connection: Connection, topic: str | None, group: str | None, queue: QueueName | None, count: int, as_json: bool
) -> None:
    """Shows the first ``count`` messages that match these names. Raises Refused and Unreachable."""
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
