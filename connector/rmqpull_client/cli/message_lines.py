"""Messages as lines of JSON, as ``peek`` prints and ``send`` reads them.

The keys are the columns of the Spark row. A body is text in ``body``, or any bytes in ``bodyBase64``.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from rmqpull_client.cli.values import parse_time_ms
from rmqpull_client.timestamps import format_timestamp

GIVEN_BY_BROKER = frozenset(
    ("topic", "brokerName", "queueId", "queueOffset", "storeTimestamp", "storeHost", "reconsumeTimes")
)
"""Fields that the broker sets: printed, and ignored when the line is sent again."""

_ENCODINGS = {1: "IDENTITY", 2: "GZIP"}


class BadLine(ValueError):
    """A line is not a message. The text says why."""


def read_message(line: str) -> dict[str, Any]:
    """Parses a line of JSON into the columns of a message. Raises BadLine."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        advice = "" if line.startswith("{") else ". With --format lines, each line is a body"
        raise BadLine(f"not JSON: {error}{advice}") from None
    if not isinstance(fields, dict):
        raise BadLine(f'not a JSON object, such as {{"body": "hello"}}, but {_kind(fields)}')
    fields = {name: value for name, value in fields.items() if value is not None}
    if ("body" in fields) is ("bodyBase64" in fields):
        raise BadLine("a message needs either 'body' or 'bodyBase64'")
    message = {}
    for name, value in fields.items():
        if name in GIVEN_BY_BROKER:
            continue
        if name not in _READERS:
            near = difflib.get_close_matches(name, _READERS, 1)
            raise BadLine(f"unknown key {name!r}" + (f". Did you mean {near[0]!r}?" if near else ""))
        column = "body" if name == "bodyBase64" else name
        message[column] = _READERS[name](name, value)
    return message


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadLine(f"{name!r} is {_kind(value)}, not a string")
    return _encodable(name, value)


def _encodable(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadLine(f"{name!r} has half of a surrogate pair, which is not Unicode text") from None
    return text


def _body(name: str, value: Any) -> bytes:
    return _text(name, value).encode()


def _base64(name: str, value: Any) -> bytes:
    try:
        return base64.b64decode(_text(name, value), validate=True)
    except binascii.Error as error:
        raise BadLine(f"{name!r} is not base64: {error}") from None


def _keys(name: str, value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [_text(name, key) for key in values]


def _properties(name: str, value: Any) -> list[tuple[str, str]]:
    if not isinstance(value, dict):
        raise BadLine(f"{name!r} is {_kind(value)}, not an object of strings")
    return [(_encodable(name, key), _text(name, item)) for key, item in value.items()]


def _time_us(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise BadLine(f"{name!r} is {_kind(value)}, not a time in ISO 8601 or in milliseconds")
    try:
        return parse_time_ms(str(value)) * 1000
    except ValueError as error:
        raise BadLine(f"{name!r}: {error}") from None


def _encoding(name: str, value: Any) -> int:
    for number, encoding in _ENCODINGS.items():
        if value == encoding:
            return number
    raise BadLine(f"{name!r} is {value!r}: use one of {', '.join(_ENCODINGS.values())}")


_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    "body": _body,
    "bodyBase64": _base64,
    "tags": _text,
    "keys": _keys,
    "properties": _properties,
    "messageGroup": _text,
    "deliveryTimestamp": _time_us,
    "bornTimestamp": _time_us,
    "bornHost": _text,
    "msgId": _text,
    "bodyEncoding": _encoding,
}


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def make_json_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Converts the rows of a batch with the pull schema into JSON objects, without null and empty values."""
    times = [field.name for field in batch.schema if pa.types.is_timestamp(field.type)]
    for name in times:
        index = batch.schema.get_field_index(name)
        batch = batch.set_column(index, name, batch.column(index).cast(pa.int64()))
    rows = []
    for row in batch.to_pylist():
        row["properties"] = dict(row["properties"] or ())
        row.update({name: format_timestamp(row[name] // 1000) for name in times if row[name] is not None})
        row["bodyEncoding"] = _ENCODINGS.get(row["bodyEncoding"])
        rows.append({name: value for name, value in _put_body(row).items() if value not in (None, {}, [])})
    return rows


def _put_body(row: dict[str, Any]) -> dict[str, Any]:
    """Puts the body as text or in base64, and ``bodyEncoding`` only when it is not IDENTITY."""
    body: bytes = row.pop("body")
    if row["bodyEncoding"] == "IDENTITY":
        del row["bodyEncoding"]
    try:
        return {**row, "body": body.decode()}
    except UnicodeDecodeError:
        return {**row, "bodyBase64": base64.b64encode(body).decode()}
