"""Apache's Java clients, started from Python, send and read what the test says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from processes.apache.cluster import ApacheCluster
from processes.apache.java_clients import JavaProducer, SendFailed, make_message
from processes.apache.releases import Release
from tests.harness.waiting import wait_until


@pytest.fixture(scope="module")
def producer(
    apache_release: Release, apache: ApacheCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaProducer]:
    with JavaProducer(apache_release, apache.addresses, tmp_path_factory.mktemp("producer")) as started:
        yield started


def test_messages_reach_the_queue_that_the_producer_says(apache: ApacheCluster, producer: JavaProducer) -> None:
    apache.administration.create_topic("java-queues", 4)
    sent = producer.send("java-queues", "one", broker="broker-a", queue=3)
    assert (sent["broker"], sent["queue"], sent["queueOffset"]) == ("broker-a", 3, 0)
    keyed = producer.send_all(make_message("java-queues", "two", shardingKey="customer-7") for _ in range(3))
    assert len({one["queue"] for one in keyed}) == 1
    # A broker adds messages to their queues after its response.
    wait_until(lambda: apache.administration.count_messages("java-queues") == 4, "all four messages in their queues")


def test_a_refused_message_is_an_error(producer: JavaProducer) -> None:
    with pytest.raises(SendFailed, match="illegal characters"):
        producer.send("no*such*topic", "body")


def test_offsets_are_reset_to_a_time_and_to_a_number(apache: ApacheCluster, producer: JavaProducer) -> None:
    administration = apache.administration
    administration.create_topic("java-resets", 1)
    producer.send_all(make_message("java-resets", "x") for _ in range(5))
    administration.create_group("java-resets")
    administration.set_offset("java-resets", "java-resets", 0, 5)
    administration.reset_offsets("java-resets", "java-resets", queue=0, offset=2)
    assert administration.query_offset("java-resets", "java-resets", 0) == 2
    administration.reset_offsets("java-resets", "java-resets", timestamp_ms=0)
    assert administration.query_offset("java-resets", "java-resets", 0) == 0
    administration.delete_group("java-resets")
    administration.delete_topic("java-resets")
    assert "java-resets" not in administration.list_topics()
