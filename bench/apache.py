"""Apache RocketMQ in a benchmark: name server, broker, and a warm JVM with Apache's own clients."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.comparison import OURS, Comparison, Mismeasured
from bench.java_load import PULL_BATCH_SIZE, JavaLoad, java_load
from bench.processor_time import BROKER, spent, wait_for_ended_queries
from bench.topics import BenchContext
from processes.apache.cluster import ApacheCluster, make_cluster
from processes.apache.releases import RELEASE_5
from processes.apache.servers import FOR_BENCHMARKS
from processes.children import ProcessFailed
from processes.maven import SoftwareMissing
from processes.spark import JVM, SOURCE, WORKER

VERSION = RELEASE_5.server
CLIENT = "client"
"""The kind of processes that pull or send: Java's, Python's without Spark, and Spark's Python workers."""
OTHER = "other"
COLUMNS = (BROKER, CLIENT, JVM, SOURCE)
"""The kinds of processes in tables of costs."""
SEND_BATCH_SIZE = 200
SEND_THREADS = 4
"""With 2 and with 8 threads, Java's producer is as fast or slower."""
FILL_BATCH_SIZE = 1_000
COUNTED_S_MAX = 60.0
_LOOK_S = 0.05


@dataclass(frozen=True)
class Apache:
    """A running cluster of one broker, and the process with Apache's clients."""

    cluster: ApacheCluster
    java: JavaLoad

    @property
    def name_servers(self) -> str:
        """The value of option ``nameServers``."""
        return self.cluster.addresses

    @property
    def broker_address(self) -> str:
        """``host:port`` of the broker."""
        return self.cluster.brokers[0].address

    @property
    def kinds(self) -> dict[int, str]:
        """What the processes are, by process id."""
        (broker,), (name_server,) = self.cluster.brokers, self.cluster.name_servers
        return {broker.pid: BROKER, self.java.process.pid: CLIENT, name_server.pid: OTHER}

    def create(self, topic: str, queues: int) -> None:
        """Creates a topic."""
        self.cluster.administration.create_topic(topic, queues)

    def fill(self, topic: str, queues: int, rows: int, body_bytes: int) -> None:
        """Creates a topic and writes rows with one property each, spread evenly over its queues. Raises Mismeasured."""
        self.create(topic, queues)
        self.java.fill(self.name_servers, topic, rows, body_bytes, FILL_BATCH_SIZE, SEND_THREADS)
        if (found := self.count(topic, queues, rows)) != rows:
            raise Mismeasured(f"topic {topic} has {found} rows instead of {rows}")

    def read(self, topic: str, rows: int, body_bytes: int, pull_batch_size: int = PULL_BATCH_SIZE) -> float:
        """Lets Java count the messages of a topic. Returns the seconds, with the start of the consumer."""
        return self.java.read(self.name_servers, topic, rows, body_bytes, pull_batch_size)

    def write(self, topic: str, rows: int, body_bytes: int) -> float:
        """Lets Java send the same rows as ``fill``, in batches. Returns the seconds, with the start of the producer."""
        return self.java.write(self.name_servers, topic, rows, body_bytes, SEND_BATCH_SIZE, SEND_THREADS)

    def configure(self, properties: Mapping[str, Any]) -> None:
        """Changes properties of the running broker."""
        texts = {name: str(value) for name, value in properties.items()}
        self.cluster.administration.update_broker(self.broker_address, **texts)

    def max_offsets(self, topic: str, queues: int) -> list[int]:
        """Returns where each queue ends."""
        return [self.cluster.administration.query_bounds(topic, queue)[1] for queue in range(queues)]

    def count(self, topic: str, queues: int, wanted: int) -> int:
        """Returns how many messages the queues have, as soon as there are ``wanted`` or more.

        A broker that has stored messages adds them to their queues a little later. After a minute, returns what there
        is.
        """
        deadline = time.monotonic() + COUNTED_S_MAX
        while (found := sum(self.max_offsets(topic, queues))) < wanted and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        return found


@contextmanager
def apache() -> Iterator[Apache]:
    """Runs a name server, a broker with the default configuration and the clients until the block ends.

    Raises SoftwareMissing and ProcessFailed.
    """
    with tempfile.TemporaryDirectory(prefix="rmqpull-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with make_cluster(folder / "cluster", java_options=FOR_BENCHMARKS) as cluster, java_load(folder) as java:
            yield Apache(cluster, java)


@contextmanager
def run_apache(context: BenchContext, comparisons: Sequence[Comparison], java: str) -> Iterator[Apache | None]:
    """Yields a cluster, or None: then the comparisons say why nothing was run on it."""
    with ExitStack() as running:
        try:
            started = running.enter_context(apache())
        except (SoftwareMissing, ProcessFailed) as missing:
            for comparison in comparisons:
                comparison.not_run |= {OURS: str(missing), java: str(missing)}
            yield None
            return
        yield started


def spent_by_column(context: BenchContext, running: Apache) -> dict[str, float]:
    """Returns the processor time so far. Spark's Python workers are clients, as Java's clients are."""
    wait_for_ended_queries()
    kinds = dict(running.kinds)
    if context.kafka is not None:
        kinds[context.kafka.process.pid] = BROKER
    taken = spent(kinds)
    taken[CLIENT] = taken.get(CLIENT, 0.0) + taken[WORKER]
    return taken
