"""A PullColumnsResponse whose columns are copied only once on each side.

A protobuf message would copy them into the message, and then into the bytes. With the memory that this needs, it would
cost more than the rest of a columnar pull (bench/broker_costs.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2
from rmqpull_proto.columns import write_stream_parts
from rmqpull_proto.rmqpull.v1 import columns_pb2

_LENGTH_DELIMITED = 2
_VARINT_BYTES_MAX = 10
_ARROW_IPC = columns_pb2.PullColumnsResponse.DESCRIPTOR.fields_by_name["arrow_ipc"].number << 3 | _LENGTH_DELIMITED


class ColumnsResponse:
    """A response to send. Its ``arrow_ipc`` is the stream of the batches, or empty without batches.

    Arguments: the response without ``arrow_ipc``, the schema, and batches of this schema.
    """

    __slots__ = ("_batches", "_schema", "response")

    def __init__(
        self, response: columns_pb2.PullColumnsResponse, schema: pa.Schema, batches: Sequence[pa.RecordBatch]
    ) -> None:
        self.response = response
        self._schema = schema
        self._batches = batches

    @property
    def status(self) -> definition_pb2.Status:
        """The status of the response."""
        return self.response.status

    def SerializeToString(self) -> bytes:
        """Serializes the response. Fields may have any order, so ``arrow_ipc`` comes last."""
        fields: bytes = self.response.SerializeToString()
        if not self._batches:
            return fields
        parts = write_stream_parts(self._schema, self._batches)
        return b"".join((fields, _encode_varint(_ARROW_IPC), _encode_varint(sum(map(len, parts))), *parts))


class ReceivedColumns:
    """A received response. Its ``arrow_ipc`` is a view of the received bytes."""

    __slots__ = ("arrow_ipc", "response")

    def __init__(self, response: columns_pb2.PullColumnsResponse, arrow_ipc: memoryview) -> None:
        self.response = response
        self.arrow_ipc = arrow_ipc

    @property
    def status(self) -> definition_pb2.Status:
        """The status of the response."""
        return self.response.status

    @property
    def queues(self) -> Sequence[columns_pb2.QueuePulled]:
        """The queues of the response."""
        return self.response.queues

    @staticmethod
    def FromString(data: bytes) -> ReceivedColumns:
        """Parses a response. Raises DecodeError for other bytes."""
        whole = memoryview(data)
        fields, stream = [], memoryview(b"")
        for key, begin, value, end in _read_fields(whole):
            if key == _ARROW_IPC:
                stream = whole[value:end]
            else:
                fields.append(whole[begin:end])
        response = columns_pb2.PullColumnsResponse.FromString(b"".join(fields))
        return ReceivedColumns(response, memoryview(response.arrow_ipc) if response.arrow_ipc else stream)


def _read_fields(data: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Yields the key of each field, and the positions of the field, its value and the next field.

    All fields of a response have a length. Everything from a field without one, or from an incomplete field, counts as
    one field, which the parser of the message handles.
    """
    begin = 0
    while begin < len(data):
        key, at = _read_varint(data, begin)
        length, value = _read_varint(data, at) if key & 7 == _LENGTH_DELIMITED else (len(data), at)
        end = value + length
        if end > len(data):
            key, end = 0, len(data)
        yield key, begin, value, end
        begin = end


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Reads a number, and returns it with its end. For an incomplete number, both are the length of the data."""
    number = 0
    for index, byte in enumerate(data[at : at + _VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return number, at + index + 1
    return len(data), len(data)


def _encode_varint(number: int) -> bytes:
    """Encodes a number as protobuf does: seven bits per byte, lowest first; the top bit says that more follow."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
