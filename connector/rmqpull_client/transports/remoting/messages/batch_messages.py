"""Encodes the messages of batches from columns, without a Python object per message (rules 4.10)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_client.transports.remoting.messages.byte_ranges import get_bytes, get_offsets
from rmqpull_client.transports.remoting.messages.joined_texts import join_texts
from rmqpull_client.transports.remoting.messages.record_numbers import Bytes, Ints
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.record_layout import PROPERTIES_BYTES_MAX

MESSAGE_BYTES = 22
"""The bytes of a message in a batch besides its body and its properties."""
_HEAD = np.dtype([("size", ">i4"), ("magic", ">i4"), ("crc", ">i4"), ("flag", ">i4"), ("body", ">i4")])


class EncodedMessages(NamedTuple):
    """Messages of batches, one after the other. Any consecutive ones are the body of a request."""

    data: memoryview
    bounds: Ints
    """Where each message begins, and where the last one ends."""

    def get_batch(self, start: int, stop: int) -> memoryview:
        """Returns the messages ``[start, stop)`` as the body of a request, without a copy."""
        return self.data[int(self.bounds[start]) : int(self.bounds[stop])]


def encode_batch(bodies: pa.Array, property_texts: pa.Array) -> EncodedMessages:
    """Encodes one message per row, of its body and the text of its properties (``encode_property_texts``).

    A null body is an empty one. Raises WireError for properties of more than 32,767 bytes: a broker would store them,
    but could then read neither them nor anything stored after them.
    """
    body_bytes = count_bytes(bodies)
    property_bytes = count_bytes(property_texts)
    check_property_sizes(property_bytes)
    heads = np.zeros(len(bodies), _HEAD)
    heads["size"] = body_bytes + property_bytes + MESSAGE_BYTES
    heads["body"] = body_bytes
    lengths = property_bytes.astype(">u2")
    parts = (_view_bytes(heads), bodies, _view_bytes(lengths), property_texts)
    joined = join_texts(parts, len(bodies), pa.binary())
    return EncodedMessages(get_bytes(joined).data, get_offsets(joined).astype(np.int64))


def _view_bytes(values: npt.NDArray[Any]) -> Bytes:
    """Returns a line with the bytes of each value."""
    return values.view(np.uint8).reshape(len(values), values.itemsize)


def check_property_sizes(property_bytes: Ints) -> None:
    """Raises WireError for a row with more than 32,767 bytes of properties."""
    if len(property_bytes) and property_bytes.max() > PROPERTIES_BYTES_MAX:
        row = int(property_bytes.argmax())
        raise WireError(
            f"the properties of row {row} have {property_bytes[row]} bytes, expected at most {PROPERTIES_BYTES_MAX}"
        )


def count_bytes(values: pa.Array) -> Ints:
    """Returns the bytes of each value; 0 for null."""
    counts: Ints = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return counts
