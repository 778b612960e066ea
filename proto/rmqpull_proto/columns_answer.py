"""A PullColumnsResponse that is put on the wire with its columns copied once.

As a message it would be copied into the message first, and from there once more: together with the fresh memory that
this takes, more than everything else that a columnar pull costs (bench/broker_costs.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2
from rmqpull_proto.columns import stream_bytes, write_stream
from rmqpull_proto.rmqpull.v1 import columns_pb2

_LENGTH_DELIMITED = 2
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
        length = stream_bytes(self._schema, self._batches)
        return write_stream(self._schema, self._batches, fields + _varint(_ARROW_IPC) + _varint(length))


def _varint(number: int) -> bytes:
    """A number in protobuf's notation: seven bits a byte, the lowest first, and a mark on all but the last."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
