"""Bodies of consumers that pop: many acknowledgements, and whether a group pops or pulls (rules 3.17.1, 4.3)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rmqpull_broker.server.remoting.wire.json_parts import Parts, join_entries, write_entry, write_table
from rmqpull_broker.server.remoting.wire.json_values import (
    REQUEST_VALUES_MAX,
    as_object,
    read_enum,
    read_object,
    read_objects,
    read_value,
)
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.json_dialect import read_json, write_json

REQUEST_MODES = ("PULL", "POP")
_ACK_BYTES_MAX = 1 << 16
_NUMBERS = (
    ("so", "startOffset"),
    ("q", "queueId"),
    ("rq", "reviveQueueId"),
    ("pt", "popTime"),
    ("it", "invisibleTime"),
)


class BatchAck(NamedTuple):
    """Acknowledgements of messages that one pop delivered from one queue. ``offsets`` are those of the queue.

    ``retry`` is the kind of topic: "0" for ``topic`` itself, "1" and "2" for the topics of its retries.
    """

    group: str
    topic: str
    retry: str
    start_offset: int
    queue_id: int
    revive_queue_id: int
    pop_time_ms: int
    invisible_ms: int
    offsets: tuple[int, ...]


def decode_batch_acks(body: bytes | memoryview) -> tuple[str, tuple[BatchAck, ...]]:
    """Reads the body of BATCH_ACK_MESSAGE: the broker's name, and the acknowledgements. Raises ``WireError``."""
    whole = read_json(body, values_max=REQUEST_VALUES_MAX) if body else None
    if whole is None:
        return "", ()
    data = as_object(whole, "acknowledgements")
    return read_value(data, "brokerName", str, ""), tuple(map(_read_ack, read_objects(data, "acks")))


def _read_ack(data: Mapping[str, Any]) -> BatchAck:
    group, topic, retry = (
        _read_either(data, short, name, str, "")
        for short, name in (("c", "consumerGroup"), ("t", "topic"), ("r", "retry"))
    )
    if retry not in ("0", "1", "2"):
        raise WireError(f"retry is {retry[:40]!r}, expected 0, 1 or 2")
    start, queue_id, revive_queue_id, pop_time_ms, invisible_ms = (
        _read_either(data, short, name, int, 0) for short, name in _NUMBERS
    )
    bits = _read_bits(_read_either(data, "b", "bitSet", str, ""))
    offsets = tuple(start + bit for bit in bits)
    return BatchAck(group, topic, retry, start, queue_id, revive_queue_id, pop_time_ms, invisible_ms, offsets)


def _read_either(data: Mapping[str, Any], short: str, name: str, kind: type, default: Any) -> Any:
    return read_value(data, short if short in data else name, kind, default)


def _read_bits(text: str) -> list[int]:
    """Returns the numbers of a Java bit set: bytes in base64, the least significant bit of each first."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise WireError(f"bitSet is {text[:40]!r}, expected bytes in base64") from None
    if len(data) > _ACK_BYTES_MAX:
        raise WireError(f"bitSet has {len(data)} bytes, above the max {_ACK_BYTES_MAX}")
    return [8 * at + bit for at, byte in enumerate(data) for bit in range(8) if byte >> bit & 1]


class RequestMode(NamedTuple):
    """The body of SET_MESSAGE_REQUEST_MODE: how the members of a group read a topic, when brokers share the queues.

    A member that pops also gets the queues of ``pop_share_queue_num`` members after it; 0 or less: all queues.
    """

    topic: str
    group: str
    mode: str = "PULL"
    pop_share_queue_num: int = 0


def decode_request_mode(body: bytes | memoryview) -> RequestMode:
    """Reads the body of a request. Raises ``WireError``."""
    data = read_object(body, "request mode", values_max=REQUEST_VALUES_MAX)
    topic = read_value(data, "topic", str, None)
    if topic is None:
        raise WireError("topic is missing in a request mode")
    group = read_value(data, "consumerGroup", str, "")
    mode = read_enum(data, "mode", REQUEST_MODES, "PULL")
    return RequestMode(topic, group, mode, read_value(data, "popShareQueueNum", int, 0))


def encode_request_modes(modes: Mapping[str, Iterable[RequestMode]]) -> Parts:
    """Writes the response to GET_ALL_MESSAGE_REQUEST_MODE: the modes by topic and group, those of a topic at a time."""
    return write_table("messageRequestModeMap", map(_write_modes, modes, modes.values()), {})


def _write_modes(topic: str, modes: Iterable[RequestMode]) -> Parts:
    return join_entries(write_json(topic) + b":{", map(_write_mode, modes), b"}")


def _write_mode(one: RequestMode) -> tuple[bytes]:
    topic, group, mode, share = one
    value = {"consumerGroup": group, "mode": mode, "popShareQueueNum": share, "topic": topic}
    return write_entry(group, value)
