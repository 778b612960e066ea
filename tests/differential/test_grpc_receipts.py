"""Acknowledgements and what else comes with a handle get the same codes and texts from both servers over gRPC."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from processes.apache.administration import Administration
from processes.apache.cluster import make_proxied_cluster
from processes.apache.releases import Release
from rmqpull_broker.testing import running_broker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc
from tests.harness.receiver import Receiver

TOPIC, OTHER, GROUP = "receipts", "receipts-other", "receipts-readers"
_BROKER, _QUEUE_ID, _OFFSET = 5, 6, 7
"""Fields of a handle."""
DIFFERENT = {"ack of no handle"}
"""The proxy fails in Java (docs/broker-support.md)."""
BAD_PLACES: dict[str, tuple[int, int | str]] = {
    "another broker": (_BROKER, "nobody"),
    "queue 7": (_QUEUE_ID, 7),
    "offset 999": (_OFFSET, 999),
    "offset -5": (_OFFSET, -5),
}


def test_both_servers_answer_alike(apache_release: Release, tmp_path: Path) -> None:
    if apache_release.name == "4.9":
        pytest.skip("4.x has no proxy")
    with running_broker(remoting=True) as broker, make_proxied_cluster(tmp_path, release=apache_release) as cluster:
        emulator = answer_all(broker.endpoints, Administration(broker.remoting_addresses[0]))
        real = answer_all(cluster.proxy.address, cluster.administration)
    assert {name for name in real if emulator[name] != real[name]} == DIFFERENT, (emulator, real)


def answer_all(endpoints: str, administration: Administration) -> dict[str, Any]:
    """Returns the codes and texts that each request gets."""
    for topic in (TOPIC, OTHER):
        administration.create_topic(topic, 1)
    administration.create_group(GROUP)
    with Receiver(endpoints, GROUP, TOPIC, language="JAVA") as receiver:
        system = v2.SystemProperties(message_id="01" + "A" * 32, message_type=v2.NORMAL)
        message = v2.Message(topic=receiver.topic, body=b"body", system_properties=system)
        for _ in range(2):
            receiver.client.send(message)
        administration.wait_until_in_queues(TOPIC, administration.find_masters())
        first, second = (each.system_properties.receipt_handle for each in receive_both(receiver))
        bad = {name: replace_field(first, *field) for name, field in BAD_PLACES.items()}
        return {
            **{f"ack, {name}": ack(receiver, handle) for name, handle in bad.items()},
            **{f"change, {name}": change(receiver, handle) for name, handle in bad.items()},
            **{f"dead letter, {name}": give_up(receiver, handle) for name, handle in bad.items()},
            "ack of no handle": ack(receiver, "x"),
            "ack of a good one and a bad one": ack(receiver, bad["queue 7"], second),
            "ack": ack(receiver, first),
            "ack once more": ack(receiver, first),
            "ack in an unknown topic": ack(receiver, first, topic="unknown"),
            "ack in another topic": ack(receiver, first, topic=OTHER),
            "ack in an unknown group": ack(receiver, first, group="unknown"),
        }


def receive_both(receiver: Receiver) -> list[v2.Message]:
    messages: list[v2.Message] = []
    while len(messages) < 2:
        messages += receiver.receive(2)
    return messages


def replace_field(handle: str, field: int, value: int | str) -> str:
    fields = handle.split(" ")
    fields[field] = str(value)
    return " ".join(fields)


def ack(receiver: Receiver, *handles: str, topic: str = TOPIC, group: str = GROUP) -> Any:
    entries = [rpc.AckMessageEntry(message_id="x", receipt_handle=handle) for handle in handles]
    request = rpc.AckMessageRequest(group=v2.Resource(name=group), topic=v2.Resource(name=topic), entries=entries)
    response = receiver.client.call("AckMessage", request)
    return [tell(status) for status in (response.status, *(entry.status for entry in response.entries))]


def change(receiver: Receiver, handle: str) -> Any:
    request = rpc.ChangeInvisibleDurationRequest(
        group=receiver.group, topic=receiver.topic, receipt_handle=handle, message_id="x"
    )
    request.invisible_duration.FromSeconds(20)
    return tell(receiver.client.call("ChangeInvisibleDuration", request).status)


def give_up(receiver: Receiver, handle: str) -> Any:
    request = rpc.ForwardMessageToDeadLetterQueueRequest(
        group=receiver.group,
        topic=receiver.topic,
        receipt_handle=handle,
        message_id="x",
        delivery_attempt=1,
        max_delivery_attempts=2,
    )
    return tell(receiver.client.call("ForwardMessageToDeadLetterQueue", request).status)


def tell(status: v2.Status) -> tuple[str, str]:
    return v2.Code.Name(status.code), status.message
