"""Compares the emulator with Apache's proxy over gRPC: Apache's Java client receives and acknowledges from both.

Both servers run at the same time and take turns; each run is a JVM of its own, whose start does not count. The client
needs more processor time than either server, so that of both sides is shown, too. Compare ratios.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from bench.comparison import OURS, Comparison, Contender, measure_all
from bench.comparison import document as make_document
from bench.costs import Costs
from bench.machine_load import Others, pin_cores, refuse_a_busy_machine
from bench.machine_lock import measure_alone
from bench.remoting_servers import APACHE
from bench.result_tables import conditions, cost_table, reasons, table
from bench.results import Aim, machine
from bench.sizes import chosen, size, size_options
from bench.waiting_receives import measure_memory
from processes.apache.cluster import make_proxied_cluster
from processes.apache.releases import RELEASE_5
from processes.apache.servers import FOR_BENCHMARKS
from processes.children import ProcessFailed
from processes.grpc_clients.java_programs import start_grpc_java
from processes.maven import SoftwareMissing
from processes.process_table import Process
from rmqpull_broker.testing import BrokerProcess

RESULTS = Path(__file__).with_name("results")
KINDS = ("Java client", "server")
TOPIC, WAKE = "bench", "wake"
QUEUES = 8
WARM_UPS = 1
ENDED_WITHIN_S = 300.0
JAVA_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData")


@dataclass(frozen=True)
class GrpcSizes:
    """All sizes. The defaults are those of a whole run."""

    runs: int = size(3, "Runs of each measurement, after one that does not count.")
    messages: int = size(20_000, "Messages of a run that one consumer receives.")
    shared_messages: int = size(40_000, "Messages of a run that eight consumers receive.")
    wake_ups: int = size(300, "Messages of a run that are sent to a waiting consumer.")
    waiting: int = size(10_000, "Receives that wait, for the memory that they take.")
    in_flight: int = size(100_000, "Messages in flight, for the memory that they take.")


QUICK = GrpcSizes(runs=1, messages=4_000, shared_messages=8_000, wake_ups=50, waiting=2_000, in_flight=20_000)


@dataclass(frozen=True)
class GrpcServer:
    """A running server at ``host:port``. ``pids`` are all of its processes."""

    endpoints: str
    pids: tuple[int, ...]

    def cpu_s(self) -> float:
        """Returns the processor time of its processes so far, in seconds."""
        return sum(Process(pid).cpu_s() for pid in self.pids)


def list_topics(sizes: GrpcSizes) -> list[str]:
    """Returns the topics of a server. Each run that wakes a consumer has its own, so that nothing waits there."""
    return [TOPIC, *(f"{WAKE}{number}" for number in range(WARM_UPS + sizes.runs))]


@contextmanager
def pair(topics: Sequence[str]) -> Iterator[Mapping[str, GrpcServer]]:
    """Runs both servers until the block ends. Both write to disk without waiting for it, which is their default."""
    with (
        tempfile.TemporaryDirectory(prefix="rmqpull-bench-", ignore_cleanup_errors=True) as name,
        BrokerProcess(dict.fromkeys(topics, QUEUES), data_dir=Path(name) / "emulator", arguments=FLUSH) as ours,
        make_proxied_cluster(Path(name) / "apache", java_options=FOR_BENCHMARKS) as apache,
    ):
        for topic in topics:
            apache.administration.create_topic(topic, QUEUES)
        (name_server,), (broker,) = apache.name_servers, apache.brokers
        yield {
            OURS: GrpcServer(ours.endpoints, (ours.pid,)),
            APACHE: GrpcServer(apache.proxy.address, (name_server.pid, broker.pid, apache.proxy.pid)),
        }


FLUSH = ("--property", "flushDiskType=ASYNC_FLUSH")


def run_java(server: GrpcServer, topic: str, mode: str, group: str, consumers: int, messages: int) -> dict[str, float]:
    """Runs Java's client and returns what it has measured. Raises ProcessFailed."""
    with tempfile.TemporaryDirectory(prefix="rmqpull-bench-", ignore_cleanup_errors=True) as folder:
        arguments = (server.endpoints, topic, group, mode, str(consumers), str(messages))
        java = start_grpc_java("Bench", Path(folder), arguments=arguments, java_options=JAVA_OPTIONS)
        try:
            line = java.read_line(ENDED_WITHIN_S)
        except EOFError:
            line = None
        finally:
            java.kill()
        if line is None:
            raise ProcessFailed(f"Java's client has measured nothing.{java.log_end()}")
    found: dict[str, float] = json.loads(line)
    return found


class Workloads:
    """The workloads of a run, with their costs."""

    def __init__(self, servers: Mapping[str, GrpcServer], sizes: GrpcSizes) -> None:
        self._servers = servers
        self._sizes = sizes
        self._groups = (f"bench-{number}" for number in count())
        self.comparisons: list[Comparison] = []
        self.costs: list[Costs] = []

    def measure(self) -> None:
        """Measures everything that Java's client does."""
        sizes = self._sizes
        for server in self._servers.values():
            run_java(server, TOPIC, "send", "filled", 8, max(sizes.messages, sizes.shared_messages))
        self._consume(1, sizes.messages)
        self._consume(8, sizes.shared_messages)
        self._wake(sizes.wake_ups)

    def _consume(self, consumers: int, messages: int) -> None:
        who = "one consumer" if consumers == 1 else f"{consumers} consumers"
        title = f"receive and acknowledge, {who}"
        comparison = Comparison(f"grpc-consume-{consumers}", title, "messages/s", {APACHE: Aim(at_least=1.0)})

        def rate(found: Mapping[str, float]) -> float:
            return messages / found["seconds"]

        self._take_turns(comparison, "consume", consumers, messages, rate)

    def _wake(self, messages: int) -> None:
        title = "send to receive of a waiting consumer"
        p99 = Comparison("grpc-wake-p99", f"{title}, p99", "ms", {APACHE: Aim(at_most=0.5)})
        p50 = Comparison("grpc-wake-p50", f"{title}, p50", "ms")
        middle: dict[str, list[float]] = {name: [] for name in self._servers}

        def slowest(name: str, found: Mapping[str, float]) -> float:
            middle[name].append(found["p50Ms"])
            return found["p99Ms"]

        self._take_turns(p99, "latency", 1, messages, slowest)
        p50.failed |= p99.failed
        p50.figures |= {name: figures[WARM_UPS:] for name, figures in middle.items() if name not in p50.failed}
        self.comparisons.append(p50)

    def _take_turns(
        self, comparison: Comparison, mode: str, consumers: int, messages: int, figure: Callable[..., float]
    ) -> None:
        costs = Costs(comparison.title, KINDS)
        turns = {name: count() for name in self._servers}

        def workload(name: str, server: GrpcServer) -> float:
            before = server.cpu_s()
            topic = TOPIC if mode == "consume" else f"{WAKE}{next(turns[name])}"
            found = run_java(server, topic, mode, next(self._groups), consumers, messages)
            spent = {KINDS[0]: found["processorSeconds"], KINDS[1]: server.cpu_s() - before}
            costs.add(name, dict.fromkeys(KINDS, 0.0), spent, messages)
            return figure(found) if figure.__name__ == "rate" else figure(name, found)

        contenders = [
            Contender(name, partial(workload, name, one), [comparison]) for name, one in self._servers.items()
        ]
        measure_all(contenders, self._sizes.runs, WARM_UPS, alternates=True)
        costs.drop_warm_ups(WARM_UPS)
        self.comparisons.append(comparison)
        self.costs.append(costs)


@click.command()
@click.option("--quick", is_flag=True, help="Smaller sizes, in about a minute.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="File for the figures.")
@size_options(GrpcSizes)
def main(quick: bool, file: Path | None, **asked: Any) -> None:
    """Measure, print a table, and write all figures as JSON."""
    measure_alone()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # then servers are stopped too
    sizes = chosen(QUICK if quick else GrpcSizes(), asked)
    is_whole = file is None and not quick and all(value is None for value in asked.values())
    console, cores = Console(width=160), pin_cores()
    refuse_a_busy_machine(is_whole, console)
    others = Others()
    try:
        with pair(list_topics(sizes)) as servers:
            workloads = Workloads(servers, sizes)
            workloads.measure()
        workloads.comparisons += measure_memory(sizes.waiting, sizes.in_flight)
    except SoftwareMissing as missing:
        raise click.ClickException(str(missing)) from None
    run = others.describe_run()
    of_run = {**machine(), "cores": cores, "rocketmq": RELEASE_5.server, **run}
    kept = make_document(
        workloads.comparisons, of_run, {one.name: getattr(sizes, one.name) for one in fields(sizes)}, workloads.costs
    )
    (file or RESULTS / ("grpc.json" if is_whole else "latest.json")).write_text(
        json.dumps(kept, indent=2) + "\n", encoding="utf-8"
    )
    console.print(table(workloads.comparisons), cost_table(workloads.costs))
    console.print(conditions(kept), *reasons(workloads.comparisons), sep="\n")
    sys.exit(1 if any(comparison.failed for comparison in workloads.comparisons) else 0)


if __name__ == "__main__":
    main()
