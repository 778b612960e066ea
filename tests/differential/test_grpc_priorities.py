"""Messages with priorities that are sent and received over gRPC, on the emulator and on a real proxy (rules 3.19)."""

from __future__ import annotations

from pathlib import Path

import pytest

from processes.apache.administration import Administration
from processes.apache.cluster import make_proxied_cluster
from processes.apache.releases import RELEASE_5, Release
from rmqpull_broker.testing import running_broker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc
from tests.harness.receiver import Receiver

TOPIC, GROUP = "urgent", "urgent-readers"
PRIORITIES = (0, 2, 9, 3, 1)
Received = tuple[int | None, str, int]
"""The priority, the type and the queue of a message."""


@pytest.mark.nightly
def test_both_servers_deliver_by_priority(apache_release: Release, tmp_path: Path) -> None:
    """The lists are the receives, one after the other."""
    if apache_release is not RELEASE_5:
        pytest.skip("the emulator delivers as a proxy of 5.5")
    with running_broker(remoting=True) as broker, make_proxied_cluster(tmp_path, release=apache_release) as cluster:
        emulator = send_and_receive(broker.endpoints, Administration(broker.remoting_addresses[0]))
        real = send_and_receive(cluster.proxy.address, cluster.administration)
    assert emulator == real
    assert emulator == [
        [(9, "PRIORITY", 3), (3, "PRIORITY", 3)],
        [(2, "PRIORITY", 2), (1, "PRIORITY", 1)],
        [(0, "PRIORITY", 0)],
    ]


def send_and_receive(endpoints: str, administration: Administration) -> list[list[Received]]:
    administration.create_topic(TOPIC, 4, attributes={"message.type": "PRIORITY"})
    administration.create_group(GROUP)
    with Receiver(endpoints, GROUP, TOPIC, language="JAVA") as receiver:
        for number, priority in enumerate(PRIORITIES):
            system = v2.SystemProperties(
                message_id=f"01{number:032}", message_type=v2.MessageType.PRIORITY, priority=priority
            )
            message = v2.Message(topic=receiver.topic, body=b"body", system_properties=system)
            request = rpc.SendMessageRequest(messages=[message])
            assert receiver.client.call("SendMessage", request).status.code == v2.Code.OK
        administration.wait_until_in_queues(TOPIC, administration.find_masters())
        receives: list[list[Received]] = []
        while sum(map(len, receives)) < len(PRIORITIES):
            found = [read(message.system_properties) for message in receiver.receive(2)]
            receives += [found] if found else []
    return receives


def read(system: v2.SystemProperties) -> Received:
    priority = system.priority if system.HasField("priority") else None
    return priority, v2.MessageType.Name(system.message_type), system.queue_id
