"""``rmqpull send``: sends messages from the command line, from lines, from lines of JSON, or from Parquet."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from rmqpull_client.cli.completing import topic_argument
from rmqpull_client.cli.frame import OnceCommand, as_json
from rmqpull_client.cli.message_options import message_options
from rmqpull_client.cli.output import Refused
from rmqpull_client.cli.servers import connected, make_click_error
from rmqpull_client.cli.values import ANY_BYTES, DURATION
from rmqpull_client.errors import RmqpullError, RowsRefused

if TYPE_CHECKING:
    import pyarrow as pa

    from rmqpull_client.cli.sending import Sender
    from rmqpull_client.connection import Connection
    from rmqpull_client.transports.port import BrokerClient

LINES, JSON_LINES, PARQUET = "lines", "jsonl", "parquet"
NOT_FOR_CLUSTERS = frozenset(("bornTimestamp", "bornHost"))
"""What the brokers of a cluster set themselves, by the connection on which a message comes."""


@click.command(
    cls=OnceCommand,
    examples=[
        "rmqpull send orders --body hello --tag paid --key 4711",
        "rmqpull send orders messages.jsonl",
        "rmqpull send orders bodies.txt --format lines --property city=Riga",
        "rmqpull send copies orders/broker-a-0-00000000000000000000.parquet",
        "rmqpull peek orders --json --newest 100 | rmqpull send copies",
    ],
)
@topic_argument
@click.argument("file", required=False, metavar="[FILE]")
@click.option(
    "--body",
    "bodies",
    type=ANY_BYTES,
    multiple=True,
    metavar="TEXT",
    help="Body of one message, instead of input; may be repeated.",
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice([LINES, JSON_LINES, PARQUET]),
    help=f"Form of the input: each line that is not empty is a body, each is a message in JSON, or Parquet "
    f"[default: {PARQUET} for a FILE of that name, otherwise {JSON_LINES}].",
)
@message_options
@click.option("--delay", type=DURATION, metavar="DURATION", help="Delay of the delivery, by this machine's clock.")
@as_json
@connected
@click.pass_obj
def command(
    connection: Connection,
    /,
    client: BrokerClient,
    topic: str,
    file: str | None,
    bodies: Sequence[bytes],
    file_format: str | None,
    delay: int | None,
    as_json: bool,
    **defaults: Any,
) -> None:
    """Send messages from --body, or from FILE or standard input.

    A line of JSON is an object: {"body": "hello", "tags": "paid", "keys": ["4711"], "properties": {"city": "Riga"},
    "messageGroup": "a", "deliveryTimestamp": "2013-01-31T12:00:00Z"}. Use bodyBase64 for a body that is not text. A
    Parquet file has columns of these names. What 'peek --json' and 'export' write is valid input.

    A bad message stops the command; the error names it, and the messages that were acknowledged before it. When an
    acknowledgement is lost, its messages are sent again: up to 10,000 can then be there twice.
    """
    if bodies and (file is not None or file_format is not None):
        raise click.UsageError("give either --body, or FILE and --format")
    is_parquet = file_format == PARQUET or (file_format is None and (file or "").endswith(f".{PARQUET}"))
    if is_parquet and file in (None, "-"):
        raise click.UsageError(f"--format {PARQUET} needs FILE: it cannot be read from standard input")
    given = {
        "tags": defaults["tag"],
        "keys": list(defaults["keys"]) or None,
        "properties": list(defaults["properties"]) or None,
        "messageGroup": defaults["message_group"],
        "deliveryTimestamp": None if delay is None else time.time_ns() // 1000 + delay * 1000,
    }
    given = {name: value for name, value in given.items() if value is not None}
    # Imported here, because they need Arrow, which the help does not.
    from rmqpull_client.cli.sending import Sender, ignore_progress, list_bodies, open_input, read_lines, show_progress

    def publish(batch: pa.RecordBatch) -> None:
        names = NOT_FOR_CLUSTERS.intersection(batch.schema.names) if connection.name_servers else ()
        try:
            client.publish(topic, batch.drop_columns(list(names)))
        except RowsRefused:
            raise
        except RmqpullError as error:
            raise make_click_error(error) from None

    unit = "message" if bodies else "row" if is_parquet else "line"
    sending = Sender(publish, topic, given, unit)
    if bodies:
        sending.send(list_bodies(bodies), ignore_progress)
    elif is_parquet:
        assert file is not None
        _send_parquet(file, sending, given)
    else:
        with open_input(file) as stream, show_progress(stream) as advance:
            sending.send(read_lines(stream, as_text=file_format == LINES), advance)
    sending.report(as_json=as_json)


def _send_parquet(file: str, sending: Sender, given: dict[str, Any]) -> None:
    from rmqpull_client.cli.message_lines import BadLine
    from rmqpull_client.cli.parquet_input import read_parquet
    from rmqpull_client.cli.sending import BATCH_ROWS

    begin = 1
    try:
        for batch in read_parquet(file, given, BATCH_ROWS):
            sending.send_batch(batch, range(begin, begin + batch.num_rows))
            begin += batch.num_rows
    except BadLine as error:
        raise Refused(f"{error}; {sending.describe_so_far()}, nothing after it was sent") from None
    except OSError as error:
        raise Refused(f"cannot read {file}: {error.strerror or error}") from None
