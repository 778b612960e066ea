"""A PullColumnsResponse that goes through the wire with its columns copied once at each end.

As a message it would be copied into the message first, and from there once more: together with the fresh memory that
this takes, more than everything else that a columnar pull costs (bench/broker_costs.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2
from rmqpull_proto.columns import stream_parts
from rmqpull_proto.rmqpull.v1 import columns_pb2

_LENGTH_DELIMITED = 2
_VARINT_BYTES_MAX = 10
_ARROW_IPC = columns_pb2.PullColumnsResponse.DESCRIPTOR.fields_by_name["arrow_ipc"].number << 3 | _LENGTH_DELIMITED


class ColumnsAnswer:
    """Stands for a response whose ``arrow_ipc`` is the stream of these batches; without any it stays empty.

    Arguments: the response without ``arrow_ipc``, the schema, and batches of it.
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
        """The response's own."""
        return self.response.status

    def SerializeToString(self) -> bytes:
        """The response's bytes: fields of a message may come in any order, so the largest comes last."""
        fields: bytes = self.response.SerializeToString()
        if not self._batches:
            return fields
        parts = stream_parts(self._schema, self._batches)
        return b"".join((fields, _varint(_ARROW_IPC), _varint(sum(map(len, parts))), *parts))


class ColumnsReceived:
    """A response as it came, whose ``arrow_ipc`` is a view of what was received."""

    __slots__ = ("arrow_ipc", "response")

    def __init__(self, response: columns_pb2.PullColumnsResponse, arrow_ipc: memoryview) -> None:
        self.response = response
        self.arrow_ipc = arrow_ipc

    @property
    def status(self) -> definition_pb2.Status:
        """The response's own."""
        return self.response.status

    @property
    def queues(self) -> Sequence[columns_pb2.QueuePulled]:
        """The response's own."""
        return self.response.queues

    @staticmethod
    def FromString(data: bytes) -> ColumnsReceived:
        """A response from its bytes. Raises DecodeError when they are none."""
        whole = memoryview(data)
        fields, stream = [], memoryview(b"")
        for key, begin, value, end in _fields(whole):
            if key == _ARROW_IPC:
                stream = whole[value:end]
            else:
                fields.append(whole[begin:end])
        response = columns_pb2.PullColumnsResponse.FromString(b"".join(fields))
        return ColumnsReceived(response, memoryview(response.arrow_ipc) if response.arrow_ipc else stream)


def _fields(data: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Each field's key, and where it, its value and the next field begin.

    All fields of a response are delimited by their length. From one that is not, or is cut off, the rest is one field,
    and what the message makes of it holds.
    """
    begin = 0
    while begin < len(data):
        key, at = _varint_at(data, begin)
        length, value = _varint_at(data, at) if key & 7 == _LENGTH_DELIMITED else (len(data), at)
        end = value + length
        if end > len(data):
            key, end = 0, len(data)
        yield key, begin, value, end
        begin = end


def _varint_at(data: memoryview, at: int) -> tuple[int, int]:
    """The number that begins there, and where it ends; where none ends, one that is longer than any data."""
    number = 0
    for place, byte in enumerate(data[at : at + _VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at + place + 1
    return len(data), len(data)


def _varint(number: int) -> bytes:
    """A number in protobuf's notation: seven bits a byte, the lowest first, and a mark on all but the last."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
