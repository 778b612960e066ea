"""A cluster for tests of consumers: the emulator, Apache's broker, and its proxy."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from rmqpull_broker.testing import running_broker
from rmqpull_client import Connection, MessageQueue, connect
from rmqpull_client.consumers import LitePullConsumer, LitePullSettings, ReceivedMessage
from tests.harness.apache_servers import start_proxy
from tests.harness.server_kinds import WITHOUT_PROXY
from tests.harness.waiting import wait_until

FROM_FIRST = LitePullSettings(consume_from_where="CONSUME_FROM_FIRST_OFFSET")
KINDS = ["emulator", pytest.param("apache", marks=[pytest.mark.apache, pytest.mark.processes])]
WITH_PROXY = pytest.mark.parametrize(
    "cluster",
    [*KINDS, pytest.param("proxy", marks=[pytest.mark.apache, pytest.mark.nightly, pytest.mark.processes])],
    indirect=True,
)
"""For tests through the proxy too, which tells nobody that members have come or left: each change takes 20 s."""


@dataclass(frozen=True)
class Cluster:
    """A cluster by the address of its name server, with a topic and a group of its own for each test."""

    address: str
    put_topic: Callable[[str, int], None]
    wait_until_stored: Callable[[str], None]
    topic: str
    group: str

    def create_topic(self, queue_count: int = 4) -> list[MessageQueue]:
        """Creates the topic, or changes its number of queues. Returns them."""
        self.put_topic(self.topic, queue_count)
        return [MessageQueue(self.topic, "broker-a", queue_id) for queue_id in range(queue_count)]

    def send(self, *bodies: bytes, queue: MessageQueue | None = None, tag: str | None = None) -> None:
        """Sends messages, one after the other to all queues, or to one."""
        columns = {"body": list(bodies), "tags": [tag] * len(bodies)}
        if queue is not None:
            columns |= {"brokerName": [queue.broker_name] * len(bodies), "queueId": [queue.queue_id] * len(bodies)}
        schema = pa.schema(
            [("body", pa.binary()), ("tags", pa.string()), ("brokerName", pa.string()), ("queueId", pa.int32())]
        )
        own = pa.schema([schema.field(name) for name in columns])
        connect(Connection(name_servers=self.address)).publish(self.topic, pa.record_batch(columns, schema=own))
        self.wait_until_stored(self.topic)

    def make_consumer(self, settings: LitePullSettings = FROM_FIRST) -> LitePullConsumer:
        """Returns a consumer of the group that has not started. It asks for routes whenever it needs one."""
        connection = Connection(name_servers=self.address, poll_name_server_interval_ms=1)
        return LitePullConsumer(connection, self.group, settings)

    def start_member(self, settings: LitePullSettings = FROM_FIRST) -> LitePullConsumer:
        """Returns a consumer that has joined the group, and reads the topic."""
        consumer = self.make_consumer(settings)
        consumer.subscribe(self.topic)
        consumer.start()
        return consumer


@pytest.fixture(params=KINDS)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    names = {"topic": f"topic-{uuid.uuid4().hex[:8]}", "group": f"group-{uuid.uuid4().hex[:8]}"}
    if request.param == "emulator":
        with running_broker(remoting=True) as broker:
            yield Cluster(broker.remoting_addresses[0], broker.create_topic, lambda topic: None, **names)
        return
    apache = request.getfixturevalue("apache")
    release = request.getfixturevalue("apache_release")
    if request.param == "proxy" and release.name in WITHOUT_PROXY:
        pytest.skip(WITHOUT_PROXY[release.name])
    address = apache.addresses if request.param == "apache" else start_proxy(apache).remoting_address
    administration = apache.administration
    yield Cluster(
        address,
        administration.create_topic,
        lambda topic: administration.wait_until_in_queues(topic, administration.find_masters()),
        **names,
    )


def poll_all(consumer: LitePullConsumer, count: int) -> list[ReceivedMessage]:
    """Polls until there are so many messages. Returns them."""
    messages: list[ReceivedMessage] = []

    def poll() -> bool:
        messages.extend(consumer.poll(200))
        return len(messages) >= count

    wait_until(poll, f"{count} messages")
    return messages


def wait_for_shares(consumers: list[LitePullConsumer], counts: list[int]) -> None:
    """Waits until consumers own so many queues, none of them twice."""

    def are_shared() -> bool:
        shares = [consumer.assignment for consumer in consumers]
        return [*map(len, shares)] == counts and len(frozenset().union(*shares)) == sum(counts)

    wait_until(are_shared, f"shares of {counts} queues")
