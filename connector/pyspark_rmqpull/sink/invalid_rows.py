"""Invalid rows: they end the write, are skipped, or are sent to a dead letter topic, as ``onInvalidRow`` says."""

from __future__ import annotations

import json
import logging
from typing import NamedTuple

import pyarrow as pa

from pyspark_rmqpull.errors import InvalidRowError
from pyspark_rmqpull.options.sending import FAIL, SKIP
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.topic_parts import TopicRows, read_rows
from rmqpull_proto import columns as wire

LOGGED_ROWS_MAX = 10
"""Invalid rows that a task logs one by one; it counts the others."""
REASON, TOPIC, ROW = "rmqpullReason", "rmqpullTopic", "rmqpullRow"
"""User properties of a dead letter: the reason, the topic of the row, and its other columns as JSON."""
BODY_BYTES_MAX, TEXT_CHARACTERS_MAX = 64 << 10, 4 << 10
"""Limits of a dead letter's body and of each of its properties, because a row may be invalid for its size."""

_NO_BODY = b"(no body)"

_logger = logging.getLogger(__name__)


class InvalidRow(NamedTuple):
    """A row that cannot be a message, as it came, and the reason."""

    row: TopicRows
    reason: str


class InvalidRows:
    """The invalid rows of one task."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._waiting: list[InvalidRow] = []
        self.count = 0

    def add_invalid_row(self, invalid: InvalidRow) -> None:
        """Counts and logs a row, and keeps it if it becomes a dead letter.

        Raises InvalidRowError for ``fail``, and for a dead letter that is invalid itself.
        """
        if self._options.on_invalid_row == FAIL or invalid.row.topic == self._options.dead_letter_topic:
            raise InvalidRowError(
                f"{describe_row(invalid).rstrip('.')}. Correct the row, or set option onInvalidRow to skip or "
                "deadLetter."
            )
        self.count += 1
        if self.count <= LOGGED_ROWS_MAX:
            _logger.warning("%s", describe_row(invalid))
        if self._options.on_invalid_row != SKIP:
            self._waiting.append(invalid)

    def take_dead_letters(self) -> list[TopicRows]:
        """Returns the dead letters that are still to be sent, each once."""
        waiting, self._waiting = self._waiting, []
        return [TopicRows(self._options.dead_letter_topic or "", make_dead_letter(invalid)) for invalid in waiting]

    def log_invalid_count(self) -> None:
        """Logs the number of rows, if not all were logged one by one."""
        if self.count > LOGGED_ROWS_MAX:
            _logger.warning("This task had %d invalid rows", self.count)


def describe_row(invalid: InvalidRow) -> str:
    """Describes an invalid row in one sentence, without its body."""
    topic, rows = invalid.row
    parts = [
        f"{name} {rows.column(name)[0].as_py()!r}"
        for name in ("tags", "keys", "messageGroup")
        if name in rows.schema.names and rows.column(name)[0].is_valid
    ]
    parts += [] if rows.column("body").null_count else [f"a body of {len(rows.column('body')[0].as_py())} bytes"]
    described = f" with {', '.join(parts)}" if parts else ""
    return f"Invalid row for topic {topic or 'null'}{described}: {invalid.reason}"


def make_dead_letter(invalid: InvalidRow) -> pa.RecordBatch:
    """Makes a valid message of an invalid row: its body, cut if it is too long, and properties with the rest."""
    topic, rows = invalid.row
    (row,) = read_rows(rows)
    body = row.pop("body", None) or _NO_BODY
    rest = json.dumps({name: value for name, value in row.items() if value is not None}, default=str)
    properties = {REASON: invalid.reason, TOPIC: topic or "null", ROW: rest}
    texts = [(name, _replace_control_characters(text[:TEXT_CHARACTERS_MAX])) for name, text in properties.items()]
    identity = wire.BODY_ENCODINGS["IDENTITY"]
    encoding = row.get("bodyEncoding") or identity
    arrays = {
        "body": pa.array([body[:BODY_BYTES_MAX]], pa.binary()),
        "properties": pa.array([texts], wire.PROPERTIES),
        "bodyEncoding": pa.array([encoding if len(body) <= BODY_BYTES_MAX else identity], pa.int32()),
    }
    return pa.RecordBatch.from_pydict(arrays)


def _replace_control_characters(text: str) -> str:
    """Brokers refuse properties with control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
