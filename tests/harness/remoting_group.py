"""A consumer group of the remoting protocol: members that share queues as Java's push consumers do (rules 2.2, 3.8)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from rmqpull_broker.server.remoting.wire.queue_bodies import LockRequest, QueueOfBroker, decode_locked
from rmqpull_broker.testing import RunningBroker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.remoting_member import RemotingMember

GROUP, TOPIC = "readers", "orders"
_COMMIT = 1
_BODY_AT = 84
"""Where a stored record has the length of its body, if both hosts are IPv4."""


class GroupConsumer:
    """A member of the group, which consumes when the test says so. ``in_order``: it locks its queues first."""

    def __init__(self, broker: RunningBroker, client_id: str, *, in_order: bool) -> None:
        (address,) = broker.remoting_addresses
        self._broker = broker
        self._member = RemotingMember(address, client_id)
        self._in_order = in_order
        self._next: dict[QueueOfBroker, int] = {}
        self.client_id = client_id
        self._member.beat(GROUP)

    @property
    def queues(self) -> list[QueueOfBroker]:
        """The queues that the member has."""
        return sorted(self._next)

    def leave(self) -> None:
        """Stores its offsets, unlocks its queues, unregisters, and disconnects."""
        self._give_up(self.queues)
        self._member.call(RequestCode.UNREGISTER_CLIENT, {"clientID": self.client_id, "consumerGroup": GROUP})
        self.kill()

    def kill(self) -> None:
        """Disconnects."""
        self._member.close()

    def beat(self) -> None:
        """Sends a heartbeat."""
        self._member.beat(GROUP)

    def rebalance(self) -> bool:
        """Takes its share of the queues, and returns whether any member changed since the last time."""
        notices = self._member.list_notices()
        members = self._member.list_members(GROUP)
        assert isinstance(members, list), members
        share = self._allocate(sorted(self._broker.bounds(TOPIC)), members)
        self._give_up([queue for queue in self._next if queue not in share])
        gained = [queue for queue in share if queue not in self._next]
        for queue in self._lock(gained) if self._in_order else gained:
            self._next[queue] = self._query_offset(queue)
        return bool(notices)

    def _allocate(self, queues: Sequence[tuple[str, str, int]], members: Sequence[str]) -> list[QueueOfBroker]:
        """AVG: contiguous queues, and the first members have one more (rules 2.2)."""
        place, (size, more) = members.index(self.client_id), divmod(len(queues), len(members))
        start = place * size + min(place, more)
        return [QueueOfBroker(*queue) for queue in queues[start : start + size + (place < more)]]

    def consume(self) -> dict[QueueOfBroker, list[bytes]]:
        """Pulls each queue once, sets its consumer offset, and returns the bodies by queue."""
        consumed = {}
        for queue in self._lock(self.queues) if self._in_order else self.queues:
            offset = self._next[queue]
            response = self._pull(queue, offset)
            consumed[queue] = _read_bodies(response.body)
            self._next[queue] = int(response.fields["nextBeginOffset"])
            self._commit(queue)
        return consumed

    def _pull(self, queue: QueueOfBroker, offset: int) -> RemotingCommand:
        fields = {
            "consumerGroup": GROUP,
            "queueOffset": offset,
            "maxMsgNums": 32,
            "sysFlag": _COMMIT,
            "commitOffset": offset,
            "suspendTimeoutMillis": 0,
            "subVersion": 1,
        }
        return self._member.call(RequestCode.PULL_MESSAGE, {**_fields_of(queue), **fields})

    def _commit(self, queue: QueueOfBroker) -> None:
        fields = {"consumerGroup": GROUP, "commitOffset": self._next[queue], **_fields_of(queue)}
        self._member.start(RequestCode.UPDATE_CONSUMER_OFFSET, fields, is_oneway=True)

    def _query_offset(self, queue: QueueOfBroker) -> int:
        fields = {"consumerGroup": GROUP, **_fields_of(queue)}
        response = self._member.call(RequestCode.QUERY_CONSUMER_OFFSET, fields)
        return int(response.fields["offset"]) if response.code == ResponseCode.SUCCESS else 0

    def _lock(self, queues: Sequence[QueueOfBroker]) -> Sequence[QueueOfBroker]:
        body = LockRequest(GROUP, self.client_id, tuple(queues)).encode()
        return decode_locked(self._member.call(RequestCode.LOCK_BATCH_MQ, body=body).body)

    def _give_up(self, queues: Sequence[QueueOfBroker]) -> None:
        for queue in queues:
            self._commit(queue)
            del self._next[queue]
        if self._in_order:
            body = LockRequest(GROUP, self.client_id, tuple(queues)).encode()
            self._member.call(RequestCode.UNLOCK_BATCH_MQ, body=body)


def _fields_of(queue: QueueOfBroker) -> dict[str, str | int]:
    return {"topic": queue.topic, "queueId": queue.queue_id}


def _read_bodies(records: bytes | memoryview) -> list[bytes]:
    bodies, at = [], 0
    while at < len(records):
        (size,) = struct.unpack_from(">i", records, at)
        (length,) = struct.unpack_from(">i", records, at + _BODY_AT)
        bodies.append(bytes(records[at + _BODY_AT + 4 : at + _BODY_AT + 4 + length]))
        at += size
    return bodies
