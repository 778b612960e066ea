"""Apache's Java clients, started from Python, send and read what the test says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from processes.apache.access import Account
from processes.apache.cluster import ADMIN, ApacheCluster, make_guarded_cluster, make_replicated_cluster
from processes.apache.java_clients import JavaProducer, SendFailed, make_message
from processes.apache.oracle import to_bytes
from processes.apache.releases import Release
from tests.clients.programs.java.consumer import JavaConsumer
from tests.clients.programs.java.mqadmin import run_mqadmin
from tests.harness.apache import StartApache
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
    assert apache.administration.count_messages("java-queues") == 4


def test_a_consumer_reads_what_a_producer_has_sent(
    apache_release: Release, apache: ApacheCluster, producer: JavaProducer, tmp_path: Path
) -> None:
    apache.administration.create_topic("java-messages", 1)
    producer.send("java-messages", b"\x00\xff", tags="red", keys="k1 k2", flag=5, properties={"weight": "3"})
    producer.send_batch(make_message("java-messages", f"batch {number}") for number in range(2))
    producer.send("java-messages", "a" * 10_000)
    with JavaConsumer(
        apache_release, apache.addresses, tmp_path, "java-messages", "java-pull", kind="pull"
    ) as consumer:
        read = consumer.read(4)
    assert [to_bytes(one["body"]) for one in read] == [b"\x00\xff", b"batch 0", b"batch 1", b"a" * 10_000]
    assert [one["queueOffset"] for one in read] == [0, 1, 2, 3]
    assert read[0]["flag"] == 5
    assert {name: read[0]["properties"][name] for name in ("TAGS", "KEYS", "weight")} == {
        "TAGS": "red",
        "KEYS": "k1 k2",
        "weight": "3",
    }
    assert read[3]["storeSize"] < 1000  # compressed


def test_only_committed_transactions_are_read(
    apache_release: Release, apache: ApacheCluster, producer: JavaProducer, tmp_path: Path
) -> None:
    apache.administration.create_topic(
        "java-transactions", 1, attributes={"message.type": "TRANSACTION"} if apache_release.name != "4.9" else None
    )
    producer.send("java-transactions", "no", transaction="ROLLBACK_MESSAGE")
    producer.send("java-transactions", "yes", transaction="COMMIT_MESSAGE")
    with JavaConsumer(apache_release, apache.addresses, tmp_path, "java-transactions", "java-2", kind="pull") as reader:
        assert [to_bytes(one["body"]) for one in reader.read(1)] == [b"yes"]


def test_a_refused_message_is_an_error(producer: JavaProducer) -> None:
    with pytest.raises(SendFailed, match="illegal characters"):
        producer.send("no*such*topic", "body")


def test_a_member_filters_and_mqadmin_shows_its_progress(
    apache_release: Release, apache: ApacheCluster, producer: JavaProducer, tmp_path: Path
) -> None:
    apache.administration.create_topic("java-members", 1)
    for weight in range(4):
        producer.send("java-members", str(weight), properties={"weight": str(weight)})
    with JavaConsumer(
        apache_release,
        apache.addresses,
        tmp_path / "member",
        "java-members",
        "java-members",
        expression="weight > 1",
        expression_type="SQL92",
    ) as member:
        assert {to_bytes(one["body"]) for one in member.read(2)} == {b"2", b"3"}
        wait_until(
            lambda: apache.administration.query_offset("java-members", "java-members", 0) == 4, "offsets were set"
        )
    shown = run_mqadmin(apache_release, apache.addresses, tmp_path / "admin", "consumerProgress", "-g", "java-members")
    (line,) = (line.split() for line in shown.splitlines() if line.startswith("java-members"))
    assert line[:6] == ["java-members", "broker-a", "0", "4", "4", "0"]


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


def test_a_kill_loses_no_message(apache_release: Release, start_apache: StartApache, tmp_path: Path) -> None:
    cluster = start_apache()
    cluster.administration.create_topic("orders", 2)
    with JavaProducer(apache_release, cluster.addresses, tmp_path / "producer") as producer:
        producer.send_all(make_message("orders", str(number)) for number in range(100))
    cluster.brokers[0].restart()
    with JavaConsumer(apache_release, cluster.addresses, tmp_path / "reader", "orders", "g", kind="pull") as reader:
        assert {int(to_bytes(one["body"])) for one in reader.read(100)} == set(range(100))


def test_a_slave_has_what_its_master_has_acknowledged(
    apache_release: Release, start_apache: StartApache, tmp_path: Path
) -> None:
    cluster = start_apache(make_replicated_cluster)
    cluster.administration.create_topic("orders", 1)
    with JavaProducer(apache_release, cluster.addresses, tmp_path / "producer") as producer:
        producer.send_all(make_message("orders", str(number)) for number in range(20))
    slave = cluster.find_broker("broker-a", 1)
    cluster.wait_for_slaves("orders")
    cluster.find_broker("broker-a").kill()
    fields = {"topic": "orders", "queueId": 0}
    wait_until(lambda: cluster.administration.call(slave.address, 30, fields).fields["offset"] == "20", "on the slave")


def test_clients_use_access_keys(apache_release: Release, start_apache: StartApache, tmp_path: Path) -> None:
    reader = Account("reader-1", "secret-of-reader", topics={"orders": "SUB|GET"}, groups={"readers": "SUB|GET"})
    if apache_release.name == "4.9":
        reader = Account("reader-1", "secret-of-reader", topics={"orders": "SUB"}, groups={"readers": "SUB"})
    cluster = start_apache(make_guarded_cluster, accounts=[reader])
    cluster.administration.create_topic("orders", 1)
    cluster.administration.create_group("readers")
    keys = {"admin": ADMIN.credentials, "reader": reader.credentials}
    with JavaProducer(apache_release, cluster.addresses, tmp_path / "p1", credentials=keys["admin"]) as producer:
        producer.send("orders", "one")
    with (
        JavaProducer(apache_release, cluster.addresses, tmp_path / "p2", credentials=keys["reader"]) as refused,
        pytest.raises(SendFailed),
    ):
        refused.send("orders", "two")
    with JavaConsumer(
        apache_release, cluster.addresses, tmp_path / "c", "orders", "readers", kind="pull", credentials=keys["reader"]
    ) as consumer:
        assert [to_bytes(one["body"]) for one in consumer.read(1)] == [b"one"]
    shown = run_mqadmin(
        apache_release, cluster.addresses, tmp_path / "m", "topicStatus", "-t", "orders", credentials=keys["admin"]
    )
    assert "broker-a" in shown
