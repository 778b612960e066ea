"""Bodies about queues: locks, shares, and offsets by queue, as JSON (rules 3.5.3, 3.8, 4.3)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from rmqpull_broker.server.remoting.wire.json_parts import Parts, join_entries, write_list
from rmqpull_broker.server.remoting.wire.json_values import (
    REQUEST_VALUES_MAX,
    read_enum,
    read_object,
    read_objects,
    read_value,
)
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.json_dialect import read_json, write_json

_MESSAGE_MODELS = ("BROADCASTING", "CLUSTERING")
_Queue = TypeVar("_Queue", bound="tuple[str, str, int]")
"""Topic, broker name and queue id."""
_QUEUES_OF_A_STEP = 512


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
        data = read_object(body, "lock", values_max=REQUEST_VALUES_MAX)
        return cls(
            read_value(data, "consumerGroup", str, None),
            read_value(data, "clientId", str, ""),
            tuple(map(_read_queue, read_objects(data, "mqSet"))),
        )

    @classmethod
    def decode_in_steps(cls, body: bytes | memoryview) -> Generator[None, None, LockRequest]:
        """Reads the body of a request as :meth:`decode`, and yields after each step."""
        data = read_object(body, "lock", values_max=REQUEST_VALUES_MAX)
        group, client_id = read_value(data, "consumerGroup", str, None), read_value(data, "clientId", str, "")
        listed, queues = read_objects(data, "mqSet"), list[QueueOfBroker]()
        for at in range(0, len(listed), _QUEUES_OF_A_STEP):
            queues += map(_read_queue, listed[at : at + _QUEUES_OF_A_STEP])
            yield
        return cls(group, client_id, tuple(queues))

    def encode(self) -> bytes:
        """Writes the body of a request."""
        queues = [_write_queue(*queue) for queue in self.queues]
        return write_json({"clientId": self.client_id, "consumerGroup": self.group, "mqSet": queues})


def write_locked(queues: Iterable[tuple[str, str, int]]) -> Parts:
    """Writes the body of the response to LOCK_BATCH_MQ: the queues (topic, broker name, queue id) that are locked."""
    return write_list("lockOKMQSet", ((write_json(_write_queue(*queue)),) for queue in queues), {})


def decode_locked(body: bytes | memoryview) -> tuple[QueueOfBroker, ...]:
    """Reads the body of the response to LOCK_BATCH_MQ. Raises ``WireError``."""
    return tuple(map(_read_queue, read_objects(read_object(body, "lock"), "lockOKMQSet")))


def _read_queue(data: Mapping[str, Any]) -> QueueOfBroker:
    return QueueOfBroker(
        read_value(data, "topic", str, ""), read_value(data, "brokerName", str, ""), read_value(data, "queueId", int, 0)
    )


def _write_queue(topic: str, broker_name: str, queue_id: int) -> dict[str, Any]:
    return {"brokerName": broker_name, "queueId": queue_id, "topic": topic}


class AssignmentQuery(NamedTuple):
    """The body of QUERY_ASSIGNMENT. Without a message model, which Java needs, it is refused."""

    topic: str
    group: str
    client_id: str
    strategy: str
    message_model: str


def decode_assignment_query(body: bytes | memoryview) -> AssignmentQuery:
    """Reads the body of a request. Raises ``WireError``."""
    data = read_object(body, "query", values_max=REQUEST_VALUES_MAX)
    model = read_enum(data, "messageModel", _MESSAGE_MODELS, "")
    if not model:
        raise WireError("messageModel is missing in a query of an assignment, expected BROADCASTING or CLUSTERING")
    names = ("topic", "consumerGroup", "clientId", "strategyName")
    topic, group, client_id, strategy = (read_value(data, name, str, "") for name in names)
    return AssignmentQuery(topic, group, client_id, strategy, model)


def encode_assignments(queues: Iterable[tuple[str, str, int]] | None, mode: str = "PULL") -> bytes:
    """Writes the body of the response: queues to pull from or to pop. None tells the client to keep what it has."""
    if queues is None:
        return b"{}"
    return write_json({"messageQueueAssignments": [{"messageQueue": _write_queue(*q), "mode": mode} for q in queues]})


# Offsets by queue. The keys of these JSON objects are objects themselves, as fastjson writes a map with such keys
# (rules 4.3).


def encode_offsets(offsets: Mapping[_Queue, int]) -> bytes:
    """Writes the body of RESET_CONSUMER_CLIENT_OFFSET, and of the response to INVOKE_BROKER_TO_RESET_OFFSET."""
    return b'{"offsetTable":' + _write_offsets(offsets) + b"}"


def encode_offset_list(offsets: Mapping[_Queue, int]) -> bytes:
    """Writes the body of RESET_CONSUMER_CLIENT_OFFSET if a client in C++ asks for the reset: a list."""
    return write_json({"offsetTable": [{**_write_queue(*queue), "offset": at} for queue, at in offsets.items()]})


def decode_offsets(body: bytes | memoryview) -> dict[QueueOfBroker, int]:
    """Reads what :func:`encode_offsets` writes. Raises ``WireError``."""
    return _read_offsets(read_value(read_object(body, "reset"), "offsetTable", dict, {}))


def decode_consumer_status(body: bytes | memoryview) -> dict[QueueOfBroker, int]:
    """Reads a consumer's response to GET_CONSUMER_STATUS_FROM_CLIENT: its offsets. Raises ``WireError``, and reads
    no more values than those of a request: a broker gets it from clients.
    """
    data = read_object(body, "status of a consumer", values_max=REQUEST_VALUES_MAX)
    return _read_offsets(read_value(data, "messageQueueTable", dict, {}))


def encode_consumer_status(offsets: Mapping[_Queue, int]) -> bytes:
    """Writes a consumer's response to GET_CONSUMER_STATUS_FROM_CLIENT."""
    return b'{"messageQueueTable":' + _write_offsets(offsets) + b"}"


def write_group_status(offsets: Mapping[str, Mapping[_Queue, int]]) -> Parts:
    """Writes the response to INVOKE_BROKER_TO_GET_CONSUMER_STATUS: the offsets of each client."""
    entries = ((write_json(client_id) + b":" + _write_offsets(table),) for client_id, table in offsets.items())
    return join_entries(b'{"consumerTable":{', entries, b'},"messageQueueTable":{}}')


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
