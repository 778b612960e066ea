"""What clients say about themselves and their queues: bodies of requests, as JSON (rules 3.6 to 3.8, 4.3).

Enums are texts. A client in C++ sends their positions in Java's classes, which fastjson reads too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.json_dialect import read_json, write_json

CONSUME_TYPES = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
MESSAGE_MODELS = ("BROADCASTING", "CLUSTERING")
CONSUME_FROM_WHERE = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_T = TypeVar("_T")
_Queue = TypeVar("_Queue", bound="tuple[str, str, int]")
"""Topic, broker name and queue id."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription in a heartbeat. ``sub_version`` is None if the client sends none; Java then takes the time."""

    topic: str
    sub_string: str
    sub_version: int | None = None
    expression_type: str = "TAG"


@dataclass(frozen=True, slots=True)
class GroupMembership:
    """A client as a consumer of one group (``ConsumerData``)."""

    group_name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscriptions: tuple[Subscription, ...] = ()


@dataclass(frozen=True, slots=True)
class HeartbeatData:
    """The body of HEART_BEAT. A ``fingerprint`` other than 0 makes it version 2 (rules 3.7)."""

    client_id: str
    consumers: tuple[GroupMembership, ...] = ()
    producer_groups: tuple[str, ...] = ()
    fingerprint: int = 0
    without_sub: bool = False

    @classmethod
    def decode(cls, body: bytes | memoryview) -> HeartbeatData:
        """Reads the body of a request. Raises ``WireError``."""
        data = _read_object(body, "heartbeat")
        if data.get("consumerDataSet", ()) is None:  # Java's code reads it, but one that is missing is empty
            raise WireError("consumerDataSet of the heartbeat is null, expected objects")
        return cls(
            client_id=_read(data, "clientID", str, ""),
            consumers=tuple(map(_read_membership, _read_objects(data, "consumerDataSet"))),
            producer_groups=tuple(_read(each, "groupName", str, "") for each in _read_objects(data, "producerDataSet")),
            fingerprint=_read(data, "heartbeatFingerprint", int, 0),
            without_sub=_read(data, "withoutSub", bool, False),
        )

    def encode(self) -> bytes:
        """Writes the body of a request."""
        return write_json(
            {
                "clientID": self.client_id,
                "consumerDataSet": [_write_membership(consumer) for consumer in self.consumers],
                "heartbeatFingerprint": self.fingerprint,
                "producerDataSet": [{"groupName": group} for group in self.producer_groups],
                "withoutSub": self.without_sub,
            }
        )


def _read_membership(data: Mapping[str, Any]) -> GroupMembership:
    return GroupMembership(
        _read(data, "groupName", str, ""),
        _read_enum(data, "consumeType", CONSUME_TYPES, "CONSUME_PASSIVELY"),
        _read_enum(data, "messageModel", MESSAGE_MODELS, "CLUSTERING"),
        _read_enum(data, "consumeFromWhere", CONSUME_FROM_WHERE, "CONSUME_FROM_LAST_OFFSET"),
        tuple(map(_read_subscription, _read_objects(data, "subscriptionDataSet"))),
    )


def _read_subscription(data: Mapping[str, Any]) -> Subscription:
    version = data.get("subVersion")
    return Subscription(
        _read(data, "topic", str, ""),
        _read(data, "subString", str, ""),
        None if version is None else _read(data, "subVersion", int, 0),
        _read(data, "expressionType", str, "TAG"),
    )


def _write_membership(consumer: GroupMembership) -> dict[str, Any]:
    return {
        "consumeFromWhere": consumer.consume_from_where,
        "consumeType": consumer.consume_type,
        "groupName": consumer.group_name,
        "messageModel": consumer.message_model,
        "subscriptionDataSet": [
            {
                "expressionType": subscription.expression_type,
                "subString": subscription.sub_string,
                "topic": subscription.topic,
                **({} if subscription.sub_version is None else {"subVersion": subscription.sub_version}),
            }
            for subscription in consumer.subscriptions
        ],
        "unitMode": False,
    }


def decode_client_check(body: bytes | memoryview) -> Subscription | None:
    """Reads the subscription of CHECK_CLIENT_CONFIG; None if there is none. Raises ``WireError``."""
    if not body:
        return None
    whole = read_json(body)
    if whole is None or whole == []:  # fastjson reads both as no object
        return None
    data = _read(_as_object(whole, "client"), "subscriptionData", dict, None)
    return None if data is None else _read_subscription(data)


def encode_client_ids(client_ids: Iterable[str]) -> bytes:
    """Writes the body of the response to GET_CONSUMER_LIST_BY_GROUP."""
    return write_json({"consumerIdList": list(client_ids)})


class QueueOfBroker(NamedTuple):
    """A message queue, as bodies name it."""

    topic: str
    broker_name: str
    queue_id: int


@dataclass(frozen=True, slots=True)
class LockRequest:
    """The body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ (rules 3.8). Java's clients always name the group."""

    group: str | None
    client_id: str
    queues: tuple[QueueOfBroker, ...] = ()

    @classmethod
    def decode(cls, body: bytes | memoryview) -> LockRequest:
        """Reads the body of a request. Raises ``WireError``."""
        data = _read_object(body, "lock")
        return cls(
            _read(data, "consumerGroup", str, None),
            _read(data, "clientId", str, ""),
            tuple(map(_read_queue, _read_objects(data, "mqSet"))),
        )

    def encode(self) -> bytes:
        """Writes the body of a request."""
        queues = [_write_queue(*queue) for queue in self.queues]
        return write_json({"clientId": self.client_id, "consumerGroup": self.group, "mqSet": queues})


def encode_locked(queues: Iterable[tuple[str, str, int]]) -> bytes:
    """Writes the body of the response to LOCK_BATCH_MQ: the queues (topic, broker name, queue id) that are locked."""
    return write_json({"lockOKMQSet": [_write_queue(*queue) for queue in queues]})


def decode_locked(body: bytes | memoryview) -> tuple[QueueOfBroker, ...]:
    """Reads the body of the response to LOCK_BATCH_MQ. Raises ``WireError``."""
    return tuple(map(_read_queue, _read_objects(_read_object(body, "lock"), "lockOKMQSet")))


def _read_queue(data: Mapping[str, Any]) -> QueueOfBroker:
    return QueueOfBroker(
        _read(data, "topic", str, ""), _read(data, "brokerName", str, ""), _read(data, "queueId", int, 0)
    )


def _write_queue(topic: str, broker_name: str, queue_id: int) -> dict[str, Any]:
    return {"brokerName": broker_name, "queueId": queue_id, "topic": topic}


# Offsets by queue. The keys of these objects are objects (rules 4.3).


def encode_offsets(offsets: Mapping[_Queue, int]) -> bytes:
    """Writes the body of RESET_CONSUMER_CLIENT_OFFSET, and of the response to INVOKE_BROKER_TO_RESET_OFFSET."""
    return b'{"offsetTable":' + _write_offsets(offsets) + b"}"


def encode_offset_list(offsets: Mapping[_Queue, int]) -> bytes:
    """Writes the body of RESET_CONSUMER_CLIENT_OFFSET if a client in C++ asks for the reset: a list."""
    return write_json({"offsetTable": [{**_write_queue(*queue), "offset": at} for queue, at in offsets.items()]})


def decode_offsets(body: bytes | memoryview) -> dict[QueueOfBroker, int]:
    """Reads what :func:`encode_offsets` writes. Raises ``WireError``."""
    return _read_offsets(_read(_read_object(body, "reset"), "offsetTable", dict, {}))


def decode_consumer_status(body: bytes | memoryview) -> dict[QueueOfBroker, int]:
    """Reads a consumer's response to GET_CONSUMER_STATUS_FROM_CLIENT: its offsets. Raises ``WireError``."""
    return _read_offsets(_read(_read_object(body, "status of a consumer"), "messageQueueTable", dict, {}))


def encode_consumer_status(offsets: Mapping[_Queue, int]) -> bytes:
    """Writes a consumer's response to GET_CONSUMER_STATUS_FROM_CLIENT."""
    return b'{"messageQueueTable":' + _write_offsets(offsets) + b"}"


def encode_group_status(offsets: Mapping[str, Mapping[_Queue, int]]) -> bytes:
    """Writes the response to INVOKE_BROKER_TO_GET_CONSUMER_STATUS: the offsets of each client."""
    entries = [write_json(client_id) + b":" + _write_offsets(table) for client_id, table in offsets.items()]
    return b'{"consumerTable":{' + b",".join(entries) + b'},"messageQueueTable":{}}'


def encode_corrections(offsets: Mapping[int, int]) -> bytes:
    """Writes the response to QUERY_CORRECTION_OFFSET: offsets by queue id, which fastjson writes without quotes."""
    entries = ",".join(f"{queue_id}:{offset}" for queue_id, offset in offsets.items())
    return f'{{"correctionOffsets":{{{entries}}}}}'.encode()


def _write_offsets(offsets: Mapping[_Queue, int]) -> bytes:
    return b"{" + b",".join(write_json(_write_queue(*queue)) + b":%d" % at for queue, at in offsets.items()) + b"}"


def _read_offsets(offsets: Mapping[str, Any]) -> dict[QueueOfBroker, int]:
    found = {}
    for key, offset in offsets.items():
        queue = read_json(key.encode())
        if not isinstance(queue, dict) or not isinstance(offset, int):
            raise WireError(f"an offset is {offset!r} of queue {key[:80]!r}, expected a number and an object")
        found[_read_queue(queue)] = offset
    return found


# Reading.


def _read_object(body: bytes | memoryview, what: str) -> Mapping[str, Any]:
    return _as_object(read_json(body), what)


def _as_object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise WireError(f"the body of the {what} is {str(value)[:60]!r}, expected an object")
    return value


def _read(data: Mapping[str, Any], name: str, kind: type[_T], default: Any) -> Any:
    """Reads a value. One that is null counts as missing. As in fastjson, a number may be a text, and the reverse."""
    value = data.get(name)
    if value is None:
        return default
    if kind is str and isinstance(value, (int, float)):
        return str(value)
    if kind is int and isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise WireError(f"{name} is {str(value)[:60]!r}, expected {kind.__name__}")
    return value


def _read_objects(data: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    values: Sequence[Any] = _read(data, name, list, [])
    for value in values:
        if not isinstance(value, dict):
            raise WireError(f"{name} has {str(value)[:60]!r}, expected objects")
    return values


def _read_enum(data: Mapping[str, Any], name: str, values: Sequence[str], default: str) -> str:
    """Reads a value of an enum, by its name or by its position. Java ignores a name that it does not know."""
    value = data.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < len(values):
            raise WireError(f"{name} is {value}, expected 0 to {len(values) - 1}")
        return values[value]
    return value if isinstance(value, str) and value in values else default
