"""``rmqpull-broker send``: sends messages from JSON lines or from the command line, in batches of columns."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, BinaryIO, NamedTuple

import click
import pyarrow as pa

from rmqpull_broker.cli.arguments import complete_topics
from rmqpull_broker.cli.connection import Connection
from rmqpull_broker.cli.frame import OnceCommand, as_json, connected
from rmqpull_broker.cli.message_lines import BadLine, read_message
from rmqpull_broker.cli.output import Refused, Unreachable, show_json, show_table
from rmqpull_broker.cli.values import DURATION, PAIR
from rmqpull_proto import columns
from rmqpull_proto.rmqpull.v1 import admin_pb2 as admin
from rmqpull_proto.rmqpull.v1 import columns_pb2 as rpc

BATCH_ROWS = 10_000
BATCH_BYTES = 8 << 20
LINE_BYTES_MAX = 24 << 20
"""Enough for the largest body in base64, or with every character escaped."""


class Line(NamedTuple):
    """One message, the number of its line, and its size in the input."""

    number: int
    message: dict[str, Any]
    byte_count: int


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
@click.option("--tag", metavar="TAG", help="Tag of messages without one.")
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Key of messages without keys; may be repeated.")
@click.option(
    "--property",
    "properties",
    type=PAIR,
    multiple=True,
    metavar="NAME=VALUE",
    help="Property of messages without properties; may be repeated.",
)
@click.option("--message-group", metavar="GROUP", help="Message group of messages without one (FIFO topics).")
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
    sending = _Sender(connection, topic, given, "message" if bodies else "line")
    if bodies:
        sending.send(_from_command_line(bodies), _ignore_progress)
    else:
        with _open_input(file) as stream, _show_progress(stream) as advance:
            sending.send(_read_lines(stream, as_text=text), advance)
    sending.report(as_json)


class _Sender:
    """One run: the messages of the next batch, and the acknowledged ones. ``unit`` is what error messages count."""

    def __init__(self, connection: Connection, topic: str, defaults: dict[str, Any], unit: str) -> None:
        self._connection = connection
        self._topic = topic
        self._defaults = defaults
        self._unit = unit
        self._waiting: list[Line] = []
        self._acknowledged = 0
        self._last_line = 0
        self._queues: dict[tuple[str, int], dict[str, Any]] = {}

    def send(self, lines: Iterable[Line], advance: Callable[[int], None]) -> None:
        byte_count = 0
        try:
            for line in lines:
                self._waiting.append(line)
                byte_count += line.byte_count
                if len(self._waiting) >= BATCH_ROWS or byte_count >= BATCH_BYTES:
                    self._publish()
                    advance(byte_count)
                    byte_count = 0
        except BadLine as error:
            raise Refused(f"{error}; {self._so_far()}, nothing after it was sent") from None
        if self._waiting:
            self._publish()
            advance(byte_count)

    def _publish(self) -> None:
        batch = _make_batch([{**self._defaults, **line.message} for line in self._waiting])
        arrow_ipc = columns.write_stream(batch.schema, [batch])
        request = rpc.PublishColumnsRequest(topic=self._topic, arrow_ipc=arrow_ipc)
        try:
            response = self._connection.columns("PublishColumns", request)
        except Refused as error:
            raise Refused(
                f"{error.message}: {self._describe_batch('refused together')}; {self._so_far()}", error.code
            ) from None
        except Unreachable as error:
            raise Unreachable(
                f"{error.message}; it is unknown whether {self._describe_batch('stored')}; {self._so_far()}"
            ) from None
        self._acknowledged += len(self._waiting)
        self._last_line = self._waiting[-1].number
        self._waiting = []
        for stored in response.ranges:
            key = stored.queue.broker_name, stored.queue.queue_id
            row = self._queues.setdefault(key, {"brokerName": key[0], "queueId": key[1], "messages": 0})
            row.setdefault("firstOffset", stored.first_offset)
            row["messages"] += stored.row_count
            row["lastOffset"] = stored.first_offset + stored.row_count - 1

    def _describe_batch(self, fate: str) -> str:
        """Describes the batch, such as 'lines 3 to 4 were stored'."""
        first, last = self._waiting[0].number, self._waiting[-1].number
        if first == last:
            return f"{self._unit} {first} was {fate.removesuffix(' together')}"
        return f"{self._unit}s {first} to {last} were {fate}"

    def _so_far(self) -> str:
        if not self._acknowledged:
            return "no message was acknowledged before"
        if self._acknowledged == 1:
            return f"{self._unit} {self._last_line} was acknowledged before"
        return f"{self._acknowledged} messages, up to {self._unit} {self._last_line}, were acknowledged before"

    def report(self, as_json: bool) -> None:
        rows = [self._queues[key] for key in sorted(self._queues)]
        if as_json:
            show_json({"topic": self._topic, "acknowledged": self._acknowledged, "queues": rows})
            return
        acknowledged = "1 message was" if self._acknowledged == 1 else f"{self._acknowledged} messages were"
        click.echo(f"{acknowledged} acknowledged", err=True)
        if rows:
            show_table(rows, ("brokerName", "queueId", "messages", "firstOffset", "lastOffset"))


def _make_batch(messages: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """Converts messages into a batch of the publish schema, without unused columns."""
    fields = [field for field in columns.PUBLISH_SCHEMA if any(field.name in message for message in messages)]
    arrays = [pa.array([message.get(field.name) for message in messages], field.type) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _read_lines(stream: BinaryIO, *, as_text: bool) -> Iterator[Line]:
    """Reads the messages of the input, and skips empty lines. Raises BadLine with the number of the line."""
    name = getattr(stream, "name", "standard input")
    name = name if isinstance(name, str) and not name.startswith("<") else "standard input"
    number = 0
    while raw := stream.readline(LINE_BYTES_MAX + 1):
        number += 1
        if not (raw.rstrip(b"\r\n") if as_text else raw.strip()):
            continue
        try:
            yield Line(number, _parse_message(raw, as_text), len(raw))
        except BadLine as error:
            raise BadLine(f"line {number} of {name} is not a message: {error}") from None


def _parse_message(raw: bytes, as_text: bool) -> dict[str, Any]:
    if len(raw) > LINE_BYTES_MAX:
        raise BadLine(f"longer than {LINE_BYTES_MAX} bytes")
    if as_text:
        return {"body": raw.removesuffix(b"\n").removesuffix(b"\r")}
    try:
        return read_message(raw.decode())
    except UnicodeDecodeError as error:
        raise BadLine(f"not UTF-8: {error.reason} at byte {error.start}") from None


def _from_command_line(bodies: Sequence[str]) -> Iterator[Line]:
    """The bodies as they are given. An empty one is sent too: the broker decides whether to refuse it."""
    for number, body in enumerate(bodies, start=1):
        data = os.fsencode(body)
        yield Line(number, {"body": data}, len(data))


def _open_input(file: str | None) -> AbstractContextManager[Any]:
    if file is None or file == "-":
        if sys.stdin.isatty():
            click.echo("reading messages from the terminal, one per line; end with Ctrl-D", err=True)
        return nullcontext(sys.stdin.buffer)
    try:
        return open(file, "rb")
    except OSError as error:
        raise Refused(f"cannot read {file}: {error.strerror}") from None


def _show_progress(stream: BinaryIO) -> AbstractContextManager[Callable[[int], None]]:
    """Shows a progress bar on a terminal. It counts bytes, because the number of lines is unknown."""
    if not sys.stderr.isatty() or not hasattr(stream, "fileno") or isinstance(stream, io.BytesIO):
        return nullcontext(_ignore_progress)
    from rmqpull_broker.cli.output import byte_progress

    return byte_progress(os.fstat(stream.fileno()).st_size or None)


def _ignore_progress(byte_count: int) -> None:
    """Shows no progress."""


def _read_now_ms(connection: Connection) -> int:
    """Returns the broker's time, which a manual clock may set."""
    now_ms: int = connection.admin("GetClock", admin.GetClockRequest()).now_ms
    return now_ms
