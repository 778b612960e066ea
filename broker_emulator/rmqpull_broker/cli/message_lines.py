"""Messages as lines of JSON: how ``peek`` prints them and ``send`` reads them, so that one understands the other.

Keys are the names of the Spark row. A body is text under ``body``, or anything under ``bodyBase64``.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from rmqpull_broker.cli.values import parse_time_ms, time_text

_GIVEN_BY_BROKER = frozenset(
    ("topic", "brokerName", "queueId", "queueOffset", "storeTimestamp", "storeHost", "reconsumeTimes")
)
"""What a message gets when it is stored: printed, and passed over when it is sent once more."""

_ENCODINGS = {1: "IDENTITY", 2: "GZIP"}


class BadLine(ValueError):
    """A line is no message; the text says what was seen and what was expected."""


def read_message(line: str) -> dict[str, Any]:
    """The columns of a message that a line of JSON describes. Raises BadLine."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"it is no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BadLine(f'it is no JSON object but {_kind(fields)}: expected one as {{"body": "hello"}}')
    fields = {name: value for name, value in fields.items() if value is not None}
    if ("body" in fields) is ("bodyBase64" in fields):
        raise BadLine("a message has either 'body' or 'bodyBase64'")
    message = {}
    for name, value in fields.items():
        if name in _GIVEN_BY_BROKER:
            continue
        if name not in _READERS:
            near = difflib.get_close_matches(name, _READERS, 1)
            raise BadLine(f"a message has no {name!r}" + (f". Did you mean {near[0]!r}?" if near else ""))
        column = "body" if name == "bodyBase64" else name
        message[column] = _READERS[name](name, value)
    return message


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadLine(f"{name!r} is {_kind(value)}: expected a text")
    return _encodable(name, value)


def _encodable(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadLine(f"{name!r} holds half of a surrogate pair: expected Unicode text") from None
    return text


def _body(name: str, value: Any) -> bytes:
    return _text(name, value).encode()


def _base64(name: str, value: Any) -> bytes:
    try:
        return base64.b64decode(_text(name, value), validate=True)
    except binascii.Error as error:
        raise BadLine(f"{name!r} is no base64: {error}") from None


def _keys(name: str, value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [_text(name, key) for key in values]


def _properties(name: str, value: Any) -> list[tuple[str, str]]:
    if not isinstance(value, dict):
        raise BadLine(f"{name!r} is {_kind(value)}: expected an object of texts")
    return [(_encodable(name, key), _text(name, item)) for key, item in value.items()]


def _time_us(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise BadLine(f"{name!r} is {_kind(value)}: expected a time in ISO 8601 or in milliseconds")
    try:
        return parse_time_ms(str(value)) * 1000
    except ValueError as error:
        raise BadLine(f"{name!r}: {error}") from None


def _encoding(name: str, value: Any) -> int:
    for number, encoding in _ENCODINGS.items():
        if value == encoding:
            return number
    raise BadLine(f"{name!r} is {value!r}: expected one of {', '.join(_ENCODINGS.values())}")


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
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")


def described(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a batch (any columns of the pull schema) as JSON objects; what is null or empty is left out."""
    times = [field.name for field in batch.schema if pa.types.is_timestamp(field.type)]
    for name in times:
        index = batch.schema.get_field_index(name)
        batch = batch.set_column(index, name, batch.column(index).cast(pa.int64()))
    rows = []
    for row in batch.to_pylist():
        row["properties"] = dict(row["properties"] or ())
        row.update({name: time_text(row[name] // 1000) for name in times if row[name] is not None})
        row["bodyEncoding"] = _ENCODINGS.get(row["bodyEncoding"])
        rows.append({name: value for name, value in _with_text(row).items() if value not in (None, {}, [])})
    return rows


def _with_text(row: dict[str, Any]) -> dict[str, Any]:
    """The body as text when it is some, and in base64 otherwise; ``bodyEncoding`` only when it says something."""
    body: bytes = row.pop("body")
    if row["bodyEncoding"] == "IDENTITY":
        del row["bodyEncoding"]
    try:
        return {**row, "body": body.decode()}
    except UnicodeDecodeError:
        return {**row, "bodyBase64": base64.b64encode(body).decode()}
