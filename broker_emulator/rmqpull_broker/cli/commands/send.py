"""``rmqpull-broker send``: sends messages from JSON lines or from the command line, in batches of columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click
import pyarrow as pa

from rmqpull_broker.cli.arguments import complete_topics
from rmqpull_broker.cli.connection import Connection
from rmqpull_broker.cli.frame import connected
from rmqpull_client.cli.frame import OnceCommand, as_json
from rmqpull_client.cli.message_options import message_options
from rmqpull_client.cli.sending import (
    Sender,
    StoredRange,
    ignore_progress,
    list_bodies,
    open_input,
    read_lines,
    show_progress,
)
from rmqpull_client.cli.values import DURATION
from rmqpull_proto import columns
from rmqpull_proto.rmqpull.v1 import admin_pb2 as admin
from rmqpull_proto.rmqpull.v1 import columns_pb2 as rpc


@click.command(
    cls=OnceCommand,
    examples=[
        "rmqpull-broker send --topic orders --body hello --tag paid --key 4711",
        "rmqpull-broker send --topic orders messages.jsonl",
        "rmqpull-broker peek orders --json --newest 100 | rmqpull-broker send --topic copies",
        "rmqpull-broker send --topic reminders --body late --delay 10m",
    ],
)
@click.argument("file", required=False, metavar="[FILE]")
@click.option("--topic", required=True, metavar="TOPIC", shell_complete=complete_topics, help="Topic of the messages.")
@click.option(
    "--body", "bodies", multiple=True, metavar="TEXT", help="Body of one message, instead of input; may be repeated."
)
@click.option("--text", is_flag=True, help="Each line is a body, not JSON.")
@message_options
@click.option("--delay", type=DURATION, metavar="DURATION", help="Delay of the delivery (DELAY topics).")
@as_json
@connected
def command(
    connection: Connection,
    file: str | None,
    topic: str,
    bodies: Sequence[str],
    text: bool,
    delay: int | None,
    as_json: bool,
    **defaults: Any,
) -> None:
    """Send messages from --body, or from the lines of FILE or standard input.

    A line is a JSON object: {"body": "hello", "tags": "paid", "keys": ["4711"], "properties": {"city": "Riga"},
    "messageGroup": "a", "deliveryTimestamp": "2013-01-31T12:00:00Z"}. Use bodyBase64 for a body that is not text. The
    output of 'peek --json' is valid input. A bad line stops the command; the error names the line and the messages that
    were acknowledged before it.
    """
    if bodies and file is not None:
        raise click.UsageError("give either --body or FILE, not both")
    given = {
        "tags": defaults["tag"],
        "keys": list(defaults["keys"]) or None,
        "properties": list(defaults["properties"]) or None,
        "messageGroup": defaults["message_group"],
        "deliveryTimestamp": None if delay is None else (_read_now_ms(connection) + delay) * 1000,
    }
    given = {name: value for name, value in given.items() if value is not None}

    def publish(batch: pa.RecordBatch) -> Iterable[StoredRange]:
        request = rpc.PublishColumnsRequest(topic=topic, arrow_ipc=columns.write_stream(batch.schema, [batch]))
        ranges = connection.columns("PublishColumns", request).ranges
        return [
            StoredRange(own.queue.broker_name, own.queue.queue_id, own.first_offset, own.row_count) for own in ranges
        ]

    sending = Sender(publish, topic, given, "message" if bodies else "line")
    if bodies:
        sending.send(list_bodies(bodies), ignore_progress)
    else:
        with open_input(file) as stream, show_progress(stream) as advance:
            sending.send(read_lines(stream, as_text=text), advance)
    sending.report(as_json=as_json)


def _read_now_ms(connection: Connection) -> int:
    """Returns the broker's time, which a manual clock may set."""
    now_ms: int = connection.admin("GetClock", admin.GetClockRequest()).now_ms
    return now_ms
