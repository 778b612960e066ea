"""Light message queues and lite topics of a real RocketMQ become rows of Spark, in batches and in streams.

Runs once: only Apache's brokers have them, and 5.5 alone has lite topics.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from processes.apache.cluster import ApacheCluster
from processes.apache.java_clients import JavaProducer
from processes.apache.releases import RELEASE_4, RELEASE_5_5, Release
from tests.harness.apache import run_apache
from tests.harness.spark_queries import await_end
from tests.harness.waiting import wait_until

KEEPING_LIGHT_QUEUES = {"enableLmq": "true", "enableMultiDispatch": "true"}


def wait_for(cluster: ApacheCluster, topic: str, count: int) -> None:
    wait_until(lambda: cluster.administration.query_bounds(topic, 0)[1] >= count, f"{count} messages in {topic}")


def test_batches_and_streams(spark: SparkSession, apache_release: Release, tmp_path: Path) -> None:
    if apache_release is RELEASE_4:
        pytest.skip("4.x has no lite topics")
    with run_apache(RELEASE_5_5, tmp_path) as start:
        cluster = start(properties=KEEPING_LIGHT_QUEUES)
        cluster.administration.create_topic("orders", 2)
        cluster.administration.create_topic("chats", 2, attributes={"message.type": "LITE"})
        source = spark.read.format("rmqpull").option("nameServers", cluster.addresses)

        def collect(frame: DataFrame) -> list[tuple[str, int, int, bytes]]:
            rows = frame.select("topic", "queueId", "queueOffset", "body").collect()
            return sorted((row[0], row[1], row[2], bytes(row[3])) for row in rows)

        with JavaProducer(RELEASE_5_5, cluster.addresses, tmp_path / "producer") as java:
            for number in range(12):
                lite = "alice" if number % 3 else "bob"
                java.send("chats", b"%02d" % number, properties={"__LITE_TOPIC": lite})
                java.send("orders", b"%02d" % number, properties={"INNER_MULTI_DISPATCH": "%LMQ%all,%LMQ%more"})
            for topic, count in (("%LMQ%$chats$alice", 8), ("%LMQ%$chats$bob", 4), ("%LMQ%all", 12)):
                wait_for(cluster, topic, count)
            lite_topics = {
                name: [b"%02d" % at for at in range(12) if bool(at % 3) is (name == "alice")]
                for name in ("alice", "bob")
            }
            assert collect(source.option("topic", "chats").option("liteTopics", "alice,bob").load()) == [
                (f"%LMQ%$chats${name}", 0, at, body)
                for name, bodies in lite_topics.items()
                for at, body in enumerate(bodies)
            ]

            stream = (
                spark.readStream.format("rmqpull")
                .options(nameServers=cluster.addresses, topic="%LMQ%all", parentTopic="orders")
                .options(consumerGroup="readers", startingOffsets="earliest", columns="topic,queueId,queueOffset,body")
                .load()
            )

            def run() -> None:
                writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
                await_end(writer.option("path", str(tmp_path / "rows")).trigger(availableNow=True).start())

            run()
            java.send("orders", b"not there")
            java.send("orders", b"12", properties={"INNER_MULTI_DISPATCH": "%LMQ%all"})
            wait_for(cluster, "%LMQ%all", 13)
            run()
            wanted = [("%LMQ%all", 0, at, b"%02d" % at) for at in range(13)]
            assert collect(spark.read.parquet(str(tmp_path / "rows"))) == wanted
            run()
            assert cluster.administration.query_offset("readers", "%LMQ%all", 0) == 13
        with pytest.raises(
            PySparkException, match=r"The parent topic of light message queue %LMQ%all does not exist.*parentTopic"
        ):
            spark.read.format("rmqpull").options(
                nameServers=cluster.addresses, topic="%LMQ%all", parentTopic="sales"
            ).load().collect()
