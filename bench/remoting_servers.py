"""The two servers that Apache's Java clients are measured with: the emulator, and Apache's name server and broker."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from processes.apache.calls import Calls
from processes.apache.cluster import make_cluster
from processes.apache.releases import RELEASE_5
from processes.apache.servers import FOR_BENCHMARKS
from processes.process_table import Process
from rmqpull_broker.testing import BrokerProcess
from rmqpull_proto.remoting.codes import RequestCode

APACHE = f"Apache {RELEASE_5.server}"
SYNC, ASYNC = "SYNC_FLUSH", "ASYNC_FLUSH"
COUNTED_S_MAX = 60.0
_LOOK_S = 0.05


@dataclass(frozen=True)
class RemotingServer:
    """A running server. ``pids`` are all of its processes, and ``ready_s`` is how long they took to start."""

    name_server: str
    broker: str
    pids: Sequence[int]
    ready_s: float

    def resident_mb(self) -> float:
        """Returns the resident set of its processes, in megabytes."""
        return sum(Process(pid).resident_mb() for pid in self.pids)

    def cpu_s(self) -> float:
        """Returns the processor time of its processes so far, in seconds."""
        return sum(Process(pid).cpu_s() for pid in self.pids)

    def count(self, topic: str, queues: int, wanted: int) -> int:
        """Returns how many messages a topic has, as soon as there are ``wanted`` or more, or after a minute."""
        deadline = time.monotonic() + COUNTED_S_MAX
        while (found := self._count(topic, queues)) < wanted and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        return found

    def _count(self, topic: str, queues: int) -> int:
        calls = Calls()
        fields = [{"topic": topic, "queueId": queue} for queue in range(queues)]
        ends = [calls.call(self.broker, RequestCode.GET_MAX_OFFSET, one).fields["offset"] for one in fields]
        return sum(map(int, ends))


@contextmanager
def emulator(folder: Path, topics: Sequence[str], queues: int, flush: str) -> Iterator[RemotingServer]:
    """Runs the emulator until the block ends. Raises BrokerProcessError."""
    known, property_of_flush = dict.fromkeys(topics, queues), ("--property", f"flushDiskType={flush}")
    with BrokerProcess(known, data_dir=folder / "data", remoting="127.0.0.1:0", arguments=property_of_flush) as process:
        (address,) = process.remoting_addresses
        yield RemotingServer(address, address, (process.pid,), process.ready_s)


@contextmanager
def apache_servers(folder: Path, topics: Sequence[str], queues: int, flush: str) -> Iterator[RemotingServer]:
    """Runs Apache's name server and broker until the block ends. Raises SoftwareMissing and ProcessFailed."""
    begun = time.monotonic()
    with make_cluster(folder, java_options=FOR_BENCHMARKS, properties={"flushDiskType": flush}) as cluster:
        for topic in topics:
            cluster.administration.create_topic(topic, queues)
        (name_server,), (broker,) = cluster.name_servers, cluster.brokers
        ready_s = time.monotonic() - begun
        yield RemotingServer(name_server.address, broker.address, (broker.pid, name_server.pid), ready_s)
