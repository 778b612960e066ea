"""Rows with priorities are written to the emulator or a real RocketMQ, and read from it.

Runs once: RocketMQ has topics of type PRIORITY from 5.4 on.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from processes.apache.java_clients import JavaProducer
from processes.apache.releases import RELEASE_4, RELEASE_5_5, Release
from rmqpull_broker.core.model import TopicType
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.testing import Topics, running_broker
from tests.clients.programs.java.consumer import JavaConsumer
from tests.harness.apache import run_apache
from tests.harness.waiting import wait_until


@pytest.mark.parametrize(
    ("extensions", "writes", "reads"),
    [
        ("columns,admin,stages", {"nameServers": ""}, "endpoints"),
        ("columns,admin,stages", {"endpoints": ""}, "nameServers"),
        ("columns,admin,stages", {"endpoints": "", "delivery": "at-least-once"}, "endpoints"),
        ("none", {"endpoints": ""}, "endpoints"),
    ],
    ids=["remoting", "stages", "columns", "standard"],
)
def test_the_emulator_takes_priorities(
    spark: SparkSession, extensions: str, writes: dict[str, str], reads: str
) -> None:
    """They are written and read over each protocol."""
    mixed = BrokerProperties(enable_mixed_message_type=True)
    topics: Topics = {"urgent": (4, TopicType.MIXED)}
    with running_broker(topics, remoting=True, extensions=extensions, properties=mixed) as broker:
        servers = {"nameServers": broker.remoting_addresses[0], "endpoints": broker.endpoints}
        to = {name: value or servers[name] for name, value in writes.items()}
        rows = spark.sql(
            "SELECT * FROM VALUES ('0', 0, NULL), ('2', 2, NULL), ('9', 9, NULL), ('none', NULL, NULL), "
            "('group', 3, 'g') AS t(body, priority, messageGroup)"
        )
        rows.write.format("rmqpull").options(**to, topic="urgent").mode("append").save()
        source = spark.read.format("rmqpull").options(**{reads: servers[reads]}, topic="urgent")
        found = source.option("columns", "priority,body,queueId").load().collect()
    queues = {bytes(row["body"]).decode(): (row["priority"], row["queueId"]) for row in found}
    assert queues.pop("none")[0] is queues.pop("group")[0] is None
    assert queues == {"0": (0, 0), "2": (2, 2), "9": (9, 3)}


def test_priorities_are_written_and_read(spark: SparkSession, apache_release: Release, tmp_path: Path) -> None:
    """A broker puts a message of priority 2 into queue 2, and one above the last queue into that, also behind a proxy's
    gRPC port."""
    if apache_release is RELEASE_4:
        pytest.skip("4.x has no priorities")
    with run_apache(RELEASE_5_5, tmp_path) as start:
        cluster = start(properties={"enableMixedMessageType": "true"})
        administration = cluster.administration
        administration.create_topic("by-priority", 4, attributes={"message.type": "PRIORITY"})
        administration.create_topic("mixed", 4, attributes={"message.type": "MIXED"})
        administration.create_topic("normal", 4, attributes={"message.type": "NORMAL"})

        def write(topic: str, rows: str, **server: str) -> None:
            frame = spark.sql(f"SELECT * FROM VALUES {rows} AS t(body, priority, messageGroup, deliveryTimestamp)")
            options = {"topic": topic, **(server or {"nameServers": cluster.addresses})}
            frame.write.format("rmqpull").options(**options).mode("append").save()

        def read(topic: str, count: int) -> dict[str, tuple[int | None, int]]:
            wait_until(
                lambda: sum(administration.query_bounds(topic, queue)[1] for queue in range(4)) >= count,
                f"{count} messages in {topic}",
            )
            source = spark.read.format("rmqpull").options(nameServers=cluster.addresses, topic=topic)
            rows = source.option("columns", "priority,body,queueId").load().collect()
            return {bytes(row["body"]).decode(): (row["priority"], row["queueId"]) for row in rows}

        none = "CAST(NULL AS STRING), CAST(NULL AS TIMESTAMP)"
        numbers = (0, 1, 2, 3, 4, 2_147_483_647)
        write("by-priority", ", ".join(f"('{number}', {number}, {none})" for number in numbers))
        with JavaProducer(RELEASE_5_5, cluster.addresses, tmp_path / "producer") as java:
            java.send("by-priority", b"java", properties={"_SYS_MSG_PRIORITY_": "2"})
        found = read("by-priority", 7)
        assert found == {str(number): (number, min(number, 3)) for number in numbers} | {"java": (2, 2)}
        with JavaConsumer(RELEASE_5_5, cluster.addresses, tmp_path / "java", "by-priority", "java") as consumer:
            messages = consumer.read(7)
        assert {one["properties"]["_SYS_MSG_PRIORITY_"] for one in messages} == {*map(str, numbers)}

        write("mixed", f"('none', NULL, {none}), ('group', 3, 'g', CAST(NULL AS TIMESTAMP)), ('top', 3, {none}), "
              "('late', 3, CAST(NULL AS STRING), current_timestamp() + INTERVAL 1 SECOND)")  # fmt: skip
        mixed = read("mixed", 4)
        assert {body: priority for body, (priority, _) in mixed.items()} == {
            "none": None,
            "group": None,
            "top": 3,
            "late": None,
        }
        assert mixed["top"] == (3, 3)
        with pytest.raises(PySparkException, match="takes only messages of type NORMAL, and this is one of type PRIO"):
            write("normal", f"('top', 3, {none})")
        with pytest.raises(PySparkException, match="its priority is below 0"):
            write("mixed", f"('below', -1, {none})")

        write("by-priority", f"('through-proxy', 1, {none})", endpoints=cluster.start_proxy().address)
        assert read("by-priority", 8)["through-proxy"] == (1, 1)
