"""A batch of the remoting protocol as columns, without an object for each message (rules 4.6 to 4.8, 4.10).

The messages of a batch come from one producer, so they nearly always have the same property names in the same order.
Then the texts of all properties are split together, and every name becomes a column. All other batches are read message
by message (``codec.read_batch``, which explains each field), and large ones become columns part by part, so that others
have their turns in between.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.messages.columns import (
    STORED_SCHEMA,
    TIMESTAMP,
    from_rows,
    make_constant_column,
    make_offset_column,
)
from rmqpull_broker.core.model import Message, StoredMessage
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.sending.delays import TIMER_NAMES
from rmqpull_broker.core.sending.storing import check_size
from rmqpull_broker.server.remoting.handlers.codec import NOT_KEPT, Origin, split_sys_flag
from rmqpull_proto.remoting import properties as names

ROWS_MIN = 16
"""For fewer messages, columns take longer than messages one by one."""
PART_ROWS = 100
"""Messages that are read one by one before others get a turn."""
PROPERTY_BYTES_MAX = 16_384
"""A properties text up to this size can be stored, even with the properties that a broker adds."""
_HEAD = struct.Struct(">12xii")  # after size, magic and crc: flag, bytes of the body
_SHORT = struct.Struct(">h")
_HEAD_BYTES = 20
_ONE_BY_ONE = TIMER_NAMES | {names.TRANSACTION_PREPARED}
"""Properties whose values decide how a message is stored."""
_SEPARATORS = (names.NAME_END + names.VALUE_END).encode()
_ALL_OTHERS = bytes(set(range(256)) - set(_SEPARATORS))
_MAP = STORED_SCHEMA.field("properties").type


class _Parts(NamedTuple):
    bodies: list[bytes]
    properties: list[bytes]


def make_columns(body: bytes, origin: Origin, reconsume_times: int, store_host: str) -> pa.RecordBatch | None:
    """Returns the messages of a batch as columns of the stored schema, without their offsets and their store time.

    Returns None for a batch that is small or invalid, or whose messages differ in more than the values of their
    properties.
    """
    encoding, sys_flag = split_sys_flag(origin.sys_flag, is_half=False)
    parts = None if sys_flag else _split(body)
    if parts is None or len(parts.bodies) < ROWS_MIN:
        return None
    texts = _split_properties(parts.properties)
    if texts is None or not _ONE_BY_ONE.isdisjoint(texts):
        return None
    count = len(parts.bodies)
    own_map = [name for name in texts if name in names.OWN and name not in _COLUMNS and name not in NOT_KEPT]
    given: dict[str, Any] = {
        "queueOffset": make_offset_column(0, count),
        "body": pa.array(parts.bodies, pa.binary()),
        "bornTimestamp": make_constant_column(origin.born_timestamp_ms * 1000, TIMESTAMP, count),
        "bornHost": pa.repeat(origin.host, count),
        "storeTimestamp": make_constant_column(0, TIMESTAMP, count),
        "storeHost": pa.repeat(store_host, count),
        "reconsumeTimes": make_constant_column(reconsume_times, pa.int32(), count),
        "bodyEncoding": make_constant_column(int(encoding), pa.int32(), count),
        "properties": _make_maps({name: texts[name] for name in texts if name not in names.OWN}, count),
        "systemProperties": _make_maps({name: texts[name] for name in own_map}, count),
        "msgId": pa.array(texts.get(names.UNIQ_KEY, [""] * count), pa.string()),
        **{_COLUMNS[name]: pa.array(texts[name], pa.string()) for name in _OPTIONAL if name in texts},
    }
    if names.KEYS in texts:
        given["keys"] = pc.split_pattern(pa.array(texts[names.KEYS], pa.string()), names.KEY_SEPARATOR)
    arrays = [given[field.name] if field.name in given else pa.nulls(count, field.type) for field in STORED_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=STORED_SCHEMA)


_OPTIONAL = {names.TAGS: "tags", names.SHARDING_KEY: "messageGroup", names.TRACE_CONTEXT: "traceContext"}
_COLUMNS = {names.UNIQ_KEY: "msgId", names.KEYS: "keys", **_OPTIONAL}


def _split(body: bytes) -> _Parts | None:
    """Returns the body and the properties of each message; None if a length is wrong or a message has a flag."""
    bodies: list[bytes] = []
    properties: list[bytes] = []
    read_head, read_short = _HEAD.unpack_from, _SHORT.unpack_from
    at, end = 0, len(body)
    try:
        while at < end:
            flag, body_bytes = read_head(body, at)
            begin = at + _HEAD_BYTES
            middle = begin + body_bytes
            (property_bytes,) = read_short(body, middle)
            if flag or body_bytes < 0 or not 0 <= property_bytes <= PROPERTY_BYTES_MAX:
                return None
            bodies.append(body[begin:middle])
            at = middle + _SHORT.size + property_bytes
            properties.append(body[middle + _SHORT.size : at])
    except struct.error:
        return None
    return _Parts(bodies, properties) if at == end else None


def _split_properties(texts: Sequence[bytes]) -> dict[str, list[str]] | None:
    """Returns the values of each property; None unless all texts have the same names in the same order.

    A text is ``name 1 value 2 name 1 value 2``; the last 2 may be missing in all of them.
    """
    names_count = texts[0].count(_SEPARATORS[:1])
    if not names_count:
        return None if any(texts) else {}
    ends = texts[0].endswith(_SEPARATORS[1:])
    joined = b"".join(texts)[:-1] if ends else _SEPARATORS[1:].join(texts)
    pairs = names_count * len(texts)
    if ends != texts[-1].endswith(_SEPARATORS[1:]):
        return None
    if joined.translate(None, _ALL_OTHERS) != (_SEPARATORS * pairs)[:-1]:
        return None
    try:
        pieces = joined.decode().replace(names.NAME_END, names.VALUE_END).split(names.VALUE_END)
    except UnicodeDecodeError:
        return None
    step = 2 * names_count
    found = {pieces[2 * index]: pieces[2 * index + 1 :: step] for index in range(names_count)}
    first = texts[0][: texts[0].index(_SEPARATORS[:1]) + 1]
    # If the number of pairs is right and each text begins with the first name, each text has all names once.
    is_regular = len(found) == names_count and "" not in pieces and all(text.startswith(first) for text in texts)
    if is_regular and all(pieces[2 * i :: step] == [name] * len(texts) for i, name in enumerate(found)):
        return found
    return None


def _make_maps(texts: Mapping[str, Sequence[str]], count: int) -> pa.Array:
    """Returns a map for each message, with the same names in all."""
    size = len(texts)
    values = [""] * (count * size)
    for index, column in enumerate(texts.values()):
        values[index::size] = column
    offsets = pa.array(range(0, count * size + 1, size) if size else [0] * (count + 1), pa.int32())
    return pa.MapArray.from_arrays(
        offsets, pa.array([*texts] * count, pa.string()), pa.array(values, pa.string()), _MAP
    )


class PartReader:
    """Makes columns of the stored schema, without offsets and store times, and checks the sizes of messages.

    ``times`` is the number of retries of the messages.
    """

    def __init__(self, properties: BrokerProperties, store_host: str, times: int) -> None:
        self._properties = properties
        self._store_host = store_host
        self._times = times
        self._refusal: BrokerError | None = None

    def read(self, messages: Iterator[Message]) -> Iterator[pa.RecordBatch]:
        """Yields part after part. Raises what reading ``messages`` raises."""
        while part := list(islice(messages, PART_ROWS)):
            if self._refusal is None:
                self._check(part)
            yield from_rows([StoredMessage(message, 0, 0, self._store_host, self._times) for message in part])

    def _check(self, part: list[Message]) -> None:
        try:
            for message in part:
                check_size(message, self._properties)
        except BrokerError as error:
            self._refusal = error

    def check_sizes(self) -> None:
        """Refuses a batch with too large a message, once all of it was read: an unreadable message takes precedence.

        Raises what :func:`check_size` raises.
        """
        if self._refusal is not None:
            raise self._refusal
