"""Sends messages from the command line, from lines, or from files, in batches of columns."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, BinaryIO, NamedTuple

import click
import pyarrow as pa

from rmqpull_client.cli.message_lines import BadLine, read_message
from rmqpull_client.cli.output import Refused, Unreachable, byte_progress, show_json
from rmqpull_client.errors import RowsRefused
from rmqpull_proto import columns

BATCH_ROWS = 10_000
BATCH_BYTES = 8 << 20
LINE_BYTES_MAX = 24 << 20
"""Enough for the largest body in base64, or with every character escaped."""


class Line(NamedTuple):
    """One message, the number of its line, and its size in the input."""

    number: int
    message: dict[str, Any]
    byte_count: int


Publish = Callable[[pa.RecordBatch], None]
"""Sends a batch of the publish schema. Raises RowsRefused when it is stored in part, Refused when it is not stored, and
Unreachable when that is not known."""


class Sender:
    """One run: the messages of the next batch, and the acknowledged ones. ``unit`` is what error messages count.

    ``defaults`` are the columns of messages that lack them.
    """

    def __init__(self, publish: Publish, topic: str, defaults: Mapping[str, Any], unit: str) -> None:
        self._publish = publish
        self._topic = topic
        self._defaults = defaults
        self._unit = unit
        self._acknowledged = 0
        self._last_number = 0

    def send(self, lines: Iterable[Line], advance: Callable[[int], None]) -> None:
        """Sends all lines. Raises Refused and Unreachable, which say what was acknowledged before."""
        waiting, byte_count = list[Line](), 0
        try:
            for line in lines:
                waiting.append(line)
                byte_count += line.byte_count
                if len(waiting) >= BATCH_ROWS or byte_count >= BATCH_BYTES:
                    self._send_lines(waiting)
                    advance(byte_count)
                    waiting, byte_count = [], 0
        except BadLine as error:
            raise Refused(f"{error}; {self.describe_so_far()}, nothing after it was sent") from None
        if waiting:
            self._send_lines(waiting)
            advance(byte_count)

    def _send_lines(self, lines: Sequence[Line]) -> None:
        batch = _make_batch([{**self._defaults, **line.message} for line in lines])
        self.send_batch(batch, [line.number for line in lines])

    def send_batch(self, batch: pa.RecordBatch, numbers: Sequence[int]) -> None:
        """Sends messages, which have these numbers in the input. Raises Refused and Unreachable."""
        try:
            self._publish(batch)
        except RowsRefused as error:
            at = min(error.reasons)
            others = len(numbers) - len(error.reasons)
            more = f", and {len(error.reasons) - 1} more" if len(error.reasons) > 1 else ""
            stored = f"; {others} others that were sent with it were stored" if others else ""
            raise Refused(
                f"{self._unit} {numbers[at]} was refused{more}: {error.reasons[at]}{stored}; {self.describe_so_far()}",
                error.code,
            ) from None
        except Refused as error:
            fate = self._describe_batch(numbers, "refused together")
            raise Refused(f"{error.message.removesuffix('.')}: {fate}; {self.describe_so_far()}", error.code) from None
        except Unreachable as error:
            fate = self._describe_batch(numbers, "stored")
            raise Unreachable(
                f"{error.message.removesuffix('.')}; it is unknown whether {fate}; {self.describe_so_far()}"
            ) from None
        self._acknowledged += len(numbers)
        self._last_number = numbers[-1]

    def _describe_batch(self, numbers: Sequence[int], fate: str) -> str:
        """Describes the batch, such as 'lines 3 to 4 were stored'."""
        if len(numbers) == 1:
            return f"{self._unit} {numbers[0]} was {fate.removesuffix(' together')}"
        return f"{self._unit}s {numbers[0]} to {numbers[-1]} were {fate}"

    def describe_so_far(self) -> str:
        """Says how many messages were acknowledged, and which was the last."""
        if not self._acknowledged:
            return "no message was acknowledged before"
        if self._acknowledged == 1:
            return f"{self._unit} {self._last_number} was acknowledged before"
        return f"{self._acknowledged} messages, up to {self._unit} {self._last_number}, were acknowledged before"

    def report(self, *, as_json: bool) -> None:
        """Prints how many messages were acknowledged."""
        if as_json:
            show_json({"topic": self._topic, "acknowledged": self._acknowledged})
        acknowledged = "1 message was" if self._acknowledged == 1 else f"{self._acknowledged} messages were"
        click.echo(f"{acknowledged} acknowledged", err=True)


def _make_batch(messages: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """Converts messages into a batch of the publish schema, without unused columns."""
    fields = [field for field in columns.PUBLISH_SCHEMA if any(field.name in message for message in messages)]
    arrays = [pa.array([message.get(field.name) for message in messages], field.type) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def read_lines(stream: BinaryIO, *, as_text: bool) -> Iterator[Line]:
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


def list_bodies(bodies: Sequence[bytes]) -> Iterator[Line]:
    """The bodies as they are given. An empty one is sent too: the broker decides whether to refuse it."""
    for number, body in enumerate(bodies, start=1):
        yield Line(number, {"body": body}, len(body))


def open_input(file: str | None) -> AbstractContextManager[Any]:
    """Opens the file, or standard input without one or for ``-``. Raises Refused."""
    if file is None or file == "-":
        if sys.stdin is None:
            raise Refused("standard input is closed: give FILE or --body")
        if sys.stdin.isatty():
            click.echo("reading messages from the terminal, one per line; end with Ctrl-D", err=True)
        return nullcontext(sys.stdin.buffer)
    try:
        return open(file, "rb")
    except OSError as error:
        raise Refused(f"cannot read {file}: {error.strerror}") from None


def show_progress(stream: BinaryIO) -> AbstractContextManager[Callable[[int], None]]:
    """Shows a progress bar on a terminal. It counts bytes, because the number of lines is unknown."""
    if not sys.stderr.isatty() or not hasattr(stream, "fileno") or isinstance(stream, io.BytesIO):
        return nullcontext(ignore_progress)
    return byte_progress(os.fstat(stream.fileno()).st_size or None)


def ignore_progress(byte_count: int) -> None:
    """Shows no progress."""
