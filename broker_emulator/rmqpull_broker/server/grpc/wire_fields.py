"""Checks large requests in their wire form. Parsing makes an object of each list entry, and an empty entry takes only
two bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.steps import STEP_ENTRIES

FIELD_BYTES_MAX = 65_536
"""The largest list entry, or other field, of a large request without messages."""
MESSAGE_FIELDS_MAX = 65_536
"""The most fields of a large request with messages, including those of the messages."""
DETAILS_BYTES_MAX = 2 << 20
"""The most bytes outside of bodies and batches in a large request with messages, mainly properties."""

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_VARINT_BYTES_MAX = 10
M = TypeVar("M", bound=Message)


def walk_fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yields the number of each field in ``data[at:end]``, and where its value begins and ends. Raises DecodeError."""
    try:
        while at < end:
            tag, at = _read_varint(data, at)
            begin, kind = at, tag & 7
            if kind == _BYTES:
                length, begin = _read_varint(data, at)
                at = begin + length
            elif kind == _VARINT:
                _, at = _read_varint(data, at)
            elif kind in (_FIXED_64, _FIXED_32):
                at += 8 if kind == _FIXED_64 else 4
            else:
                raise DecodeError(f"a field has the wire type {kind}")
            if at > end:
                raise DecodeError("a field is longer than the request")
            yield tag >> 3, begin, at
    except IndexError:
        raise DecodeError("a field is not complete") from None


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    if value < 0x80:
        return value, at + 1
    value &= 0x7F
    for place in range(1, _VARINT_BYTES_MAX):
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise DecodeError("a number has more than 64 bits")


def read_in_steps(data: bytes, kind: type[M], fields_max: int) -> Iterator[M | None]:
    """Parses a request whose fields are list entries. Yields None after each step, and finally the request.

    Raises BadRequest for more than ``fields_max`` fields or too large a field, and DecodeError.
    """
    request, read = kind(), 0
    for count, (number, begin, end) in enumerate(walk_fields(data, 0, len(data)), start=1):
        if count > fields_max:
            raise BadRequest(f"the request has more than {fields_max} entries; send several requests")
        if end - begin > FIELD_BYTES_MAX:
            raise BadRequest(f"field {number} of the request has {end - begin} bytes, more than {FIELD_BYTES_MAX}")
        if count % STEP_ENTRIES == 0:
            request.MergeFromString(data[read:end])
            read = end
            yield None
    request.MergeFromString(data[read:])
    yield request


Contents = Mapping[int, "Contents | None"]
"""By field number: None for a body or a batch, otherwise the contents of a nested message."""


def check_details(data: bytes, contents: Contents) -> None:
    """Raises BadRequest if a request has too much outside of ``contents``, and DecodeError."""
    count = _Count()
    count.add(data, 0, len(data), contents)


class _Count:
    def __init__(self) -> None:
        self._fields, self._bytes = 0, 0

    def add(self, data: bytes, at: int, end: int, contents: Contents) -> None:
        for number, begin, after in walk_fields(data, at, end):
            self._fields += 1
            if self._fields > MESSAGE_FIELDS_MAX:
                raise BadRequest(f"the request has more than {MESSAGE_FIELDS_MAX} fields; send fewer messages")
            if number not in contents:
                self._bytes += after - begin
            elif (within := contents[number]) is not None:
                self.add(data, begin, after, within)
            if self._bytes > DETAILS_BYTES_MAX:
                raise BadRequest(f"the request has more than {DETAILS_BYTES_MAX} bytes besides bodies")
