"""Apache Kafka as a process of its own, one broker in KRaft mode, and its topics: the peer of most figures."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.artifacts import SERVER
from processes.children import Children, ProcessFailed, find_free_ports
from processes.java import find_java
from processes.maven import SoftwareMissing, fetch_jars
from processes.process_table import Process

READY_WITHIN_S = 60
REQUEST_TIMEOUT_S = 60
JVM_OPTIONS = (
    *("-server", "-Xmx1G", "-Xms1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)
"""The options of Kafka's own start script."""
FILLING = {"kafka.linger.ms": "50", "kafka.batch.size": "262144", "kafka.delivery.timeout.ms": "600000"}
"""Only for filling topics, which is not measured. With the defaults, many partitions get tiny batches, and some
expire.
"""
_CONFIG = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=60000
log.segment.delete.delay.ms=1000
auto.create.topics.enable=false
"""
_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


@dataclass(frozen=True)
class Kafka:
    """A running broker."""

    endpoints: str
    process: Process

    def create(
        self, spark: SparkSession, topic: str, partitions: int, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Creates a topic, with some settings of its own."""
        jvm = _jvm(spark)
        new = jvm.org.apache.kafka.clients.admin.NewTopic(topic, partitions, 1).configs(dict(settings))
        with self._admin(spark) as admin:
            _done(jvm, admin.createTopics(jvm.java.util.Collections.singletonList(new)).all())

    def delete(self, spark: SparkSession, topic: str) -> None:
        """Deletes a topic, since its messages need not stay on the disk."""
        jvm = _jvm(spark)
        with self._admin(spark) as admin:
            _done(jvm, admin.deleteTopics(jvm.java.util.Collections.singletonList(topic)).all())

    @contextmanager
    def _admin(self, spark: SparkSession) -> Iterator[Any]:
        """Yields the admin client in Spark's JVM."""
        admin = _jvm(spark).org.apache.kafka.clients.admin.AdminClient.create(_properties(spark, self.endpoints))
        try:
            yield admin
        finally:
            admin.close()

    def fill(self, spark: SparkSession, topic: str, partitions: int, rows: int, body_bytes: int, rare: int = 0) -> None:
        """Writes rows with one header each, spread evenly over the partitions.

        With ``rare``, one row in this many has the key ``rare``.
        """
        number = F.col("id")
        header = F.struct(F.lit("source").alias("key"), F.lit(b"bench").alias("value"))
        key = F.when(number % rare == 0, "rare").otherwise("often") if rare else F.lit(None).cast("string")
        messages = spark.range(0, rows, numPartitions=2).select(
            F.lpad(number.cast("string"), body_bytes, "0").alias("value"),
            (number % partitions).cast("int").alias("partition"),
            F.array(header).alias("headers"),
            key.alias("key"),
        )
        writer = messages.write.format("kafka").option("kafka.bootstrap.servers", self.endpoints).options(**FILLING)
        writer.option("topic", topic).option("includeHeaders", "true").save()

    @contextmanager
    def sender(self, spark: SparkSession, topic: str) -> Iterator[Any]:
        """Yields a function that sends a body and returns when the broker has stored it."""
        jvm = _jvm(spark)
        properties = _properties(spark, self.endpoints)
        for part in ("key", "value"):
            properties[f"{part}.serializer"] = "org.apache.kafka.common.serialization.ByteArraySerializer"
        producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(properties)

        def send(body: bytes) -> None:
            record = jvm.org.apache.kafka.clients.producer.ProducerRecord(topic, bytearray(body))
            _done(jvm, producer.send(record))

        try:
            yield send
        finally:
            producer.close()


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm


def _done(jvm: Any, future: Any) -> None:
    future.get(REQUEST_TIMEOUT_S, jvm.java.util.concurrent.TimeUnit.SECONDS)


def _properties(spark: SparkSession, endpoints: str) -> Any:
    properties = _jvm(spark).java.util.HashMap()
    properties["bootstrap.servers"] = endpoints
    return properties


@contextmanager
def kafka() -> Iterator[Kafka]:
    """Runs Kafka in a temporary folder until the block ends. Raises SoftwareMissing."""
    java = find_java()
    class_path = os.pathsep.join(map(str, fetch_jars(SERVER)))
    with tempfile.TemporaryDirectory(prefix="rmqpull-bench-") as folder:
        data = Path(folder)
        broker, controller = find_free_ports(2)
        config = data / "server.properties"
        config.write_text(_CONFIG.format(broker=broker, controller=controller, data=data / "logs"), encoding="utf-8")
        command = [java, *JVM_OPTIONS, "-cp", class_path]
        _format([*command, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(config)])
        with Children(os.environ) as children:
            start = [*command, "kafka.Kafka", str(config)]
            server = children.start("Kafka broker", start, data / "output", logs_output=True)
            try:
                server.wait_for_port(broker, READY_WITHIN_S)
            except ProcessFailed as failure:
                raise SoftwareMissing(f"Kafka did not start: {failure}") from None
            yield Kafka(f"127.0.0.1:{broker}", Process(server.pid))


def _format(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=READY_WITHIN_S, check=False)
    if done.returncode:
        raise SoftwareMissing(f"Kafka could not format its storage: {(done.stderr or done.stdout).strip()[-300:]}")
