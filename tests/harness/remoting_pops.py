"""A consumer of the remoting protocol that pops, as a test plays it: raw requests, and receipts as Java's client makes
them."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any

from rmqpull_broker.core.model import Message
from rmqpull_broker.server.remoting.wire.pop_bodies import BatchAck
from rmqpull_broker.testing import RunningBroker
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.json_dialect import write_json
from tests.differential.records import read_records
from tests.harness.remoting_member import RemotingMember

GROUP, TOPIC, QUEUE = "readers", "orders", 0
INVISIBLE_MS = 60_000
_PLACE: Mapping[str, Any] = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": QUEUE}
_POP: Mapping[str, Any] = {
    **_PLACE,
    "maxMsgNums": 32,
    "invisibleTime": INVISIBLE_MS,
    "pollTime": 0,
    "bornTime": 0,
    "initMode": 0,
}
_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")


class PopMember(RemotingMember):
    """A connection that pops queue 0 of ``orders`` for ``readers``. Tests may change each field of a request."""

    def __init__(self, broker: RunningBroker) -> None:
        super().__init__(broker.remoting_addresses[0])
        self._broker = broker

    def __enter__(self) -> PopMember:
        return self

    def send(self, *bodies: str, topic: str = TOPIC, **fields: Any) -> None:
        """Stores messages; the queues of a topic take turns."""
        for body in bodies:
            self._broker.send(topic, Message(body.encode(), "", **fields))

    def pop(self, **changed: Any) -> RemotingCommand:
        return self.call(RequestCode.POP_MESSAGE, {**_POP, **changed})

    def start_pop(self, **changed: Any) -> None:
        """Sends a pop that waits; :meth:`receive` returns its response."""
        self.start(RequestCode.POP_MESSAGE, {**_POP, **changed})

    def peek(self, **changed: Any) -> RemotingCommand:
        return self.call(RequestCode.PEEK_MESSAGE, {**_PLACE, "maxMsgNums": 32, **changed})

    def ask_notification(self, **changed: Any) -> Mapping[str, str]:
        """Returns the fields of the response."""
        return self.call(RequestCode.NOTIFICATION, {**_PLACE, "bornTime": 0, **changed}).fields

    def start_notification(self, **changed: Any) -> None:
        """Sends a NOTIFICATION that waits; :meth:`receive` returns its response."""
        self.start(RequestCode.NOTIFICATION, {**_PLACE, "bornTime": 0, **changed})

    def count_waiting(self, **changed: Any) -> int:
        return int(self.call(RequestCode.POLLING_INFO, {**_PLACE, **changed}).fields["pollingNum"])

    def ack(self, receipt: str, **changed: Any) -> RemotingCommand:
        return self.call(RequestCode.ACK_MESSAGE, {**self._place_of(receipt), **changed})

    def change(self, receipt: str, invisible_ms: int, **changed: Any) -> RemotingCommand:
        fields = {**self._place_of(receipt), "invisibleTime": invisible_ms, **changed}
        return self.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields)

    def _place_of(self, receipt: str) -> dict[str, Any]:
        """Returns the place that a receipt names, as Java's client sends it."""
        *_, kind, _, queue_id, offset = receipt.split(" ")
        topic = TOPIC if kind == "0" else f"%RETRY%{GROUP}_{TOPIC}"
        return {"consumerGroup": GROUP, "topic": topic, "queueId": queue_id, "offset": offset, "extraInfo": receipt}

    def list_receipts(self, response: RemotingCommand) -> list[str]:
        """Returns the receipts of the messages of a response."""
        starts = {one.rpartition(" ")[0]: one.rpartition(" ")[2] for one in _split(response, "startOffsetInfo")}
        common = " ".join(response.fields[name] for name in ("popTime", "invisibleTime", "reviveQid"))
        return [
            f"{starts[queue]} {common} {queue.replace(' ', ' broker-a ')} {offset}"
            for queue, _, offsets in (one.rpartition(" ") for one in _split(response, "msgOffsetInfo"))
            for offset in offsets.split(",")
        ]

    @staticmethod
    def hide_address(response: RemotingCommand) -> str:
        """Returns the remark of a response, with ME in the place of this client's address."""
        return _ADDRESS.sub("ME", response.remark or "")


def _split(response: RemotingCommand, name: str) -> list[str]:
    return response.fields[name].split(";")


def read_messages(response: RemotingCommand) -> list[dict[str, Any]]:
    """Returns the fields of the messages of a response."""
    return read_records(bytes(response.body))


def read_bodies(response: RemotingCommand) -> list[str]:
    """Returns the bodies of the messages of a response."""
    return [record["body"].decode() for record in read_messages(response)]


def encode_batch_acks(broker_name: str, acks: Iterable[BatchAck]) -> bytes:
    """Writes the body of BATCH_ACK_MESSAGE."""
    return write_json({"acks": [_write_ack(ack) for ack in acks], "brokerName": broker_name})


def _write_ack(ack: BatchAck) -> dict[str, Any]:
    number = sum(1 << offset - ack.start_offset for offset in ack.offsets)
    bits = number.to_bytes((number.bit_length() + 7) // 8, "little")
    return {
        "b": base64.b64encode(bits).decode(),
        "c": ack.group,
        "it": ack.invisible_ms,
        "pt": ack.pop_time_ms,
        "q": ack.queue_id,
        "r": ack.retry,
        "rq": ack.revive_queue_id,
        "so": ack.start_offset,
        "t": ack.topic,
    }
