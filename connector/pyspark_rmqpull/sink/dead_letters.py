"""Rows that no broker would take, as messages that one does."""

from __future__ import annotations

import json

import pyarrow as pa

from pyspark_rmqpull.sink.encoding import InvalidRow, plain_rows
from rmqpull_proto import columns as wire

REASON, TOPIC, ROW = "rmqpullReason", "rmqpullTopic", "rmqpullRow"
"""User properties of a dead letter: why, where it was meant to go, and its other columns as JSON."""
BODY_BYTES_MAX, TEXT_CHARACTERS_MAX = 64 << 10, 4 << 10
"""What of a body and of each property is kept: the row may be invalid for being too large."""

_NO_BODY = b"(no body)"


def dead_letter(invalid: InvalidRow) -> pa.RecordBatch:
    """One message: the body, cut where it is too long, and properties that say what happened."""
    topic, rows = invalid.row
    (row,) = plain_rows(rows)
    body = row.pop("body", None) or _NO_BODY
    rest = json.dumps({name: value for name, value in row.items() if value is not None}, default=str)
    properties = {REASON: invalid.reason, TOPIC: topic or "null", ROW: rest}
    texts = [(name, _printable(text[:TEXT_CHARACTERS_MAX])) for name, text in properties.items()]
    encoding = row.get("bodyEncoding") or wire.BODY_ENCODINGS["IDENTITY"]
    arrays = {
        "body": pa.array([body[:BODY_BYTES_MAX]], pa.binary()),
        "properties": pa.array([texts], wire.PROPERTIES),
        "bodyEncoding": pa.array([encoding if len(body) <= BODY_BYTES_MAX else 1], pa.int32()),
    }
    return pa.RecordBatch.from_pydict(arrays)


def _printable(text: str) -> str:
    """Text without control characters, for which the letter would be refused as the row was."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
