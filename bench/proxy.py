"""Compares reads through Apache's proxy with Java's lite pull consumer there, and with reads from the broker itself.

The client of the connector reads in two processes, as many as Spark's tasks on two cores. A read counts only if it has
all messages, and if no request had to be repeated.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from bench.client_alone import run_side_by_side
from bench.comparison import OURS, Comparison, Mismeasured, document, measure
from bench.java_load import JavaLoad, java_load
from bench.machine_load import Others, pin_cores, refuse_a_busy_machine
from bench.machine_lock import measure_alone
from bench.result_tables import conditions, reasons, table
from bench.results import Aim, machine
from bench.sizes import chosen, size, size_options
from processes.apache.cluster import ProxiedCluster, make_proxied_cluster
from processes.apache.releases import RELEASE_5
from processes.apache.servers import FOR_BENCHMARKS
from processes.maven import SoftwareMissing

RESULTS = Path(__file__).with_name("results")
JAVA = "Java's DefaultLitePullConsumer, through the proxy"
BROKER = f"{OURS}, from the broker itself"
AIMS = {JAVA: Aim(at_least=1.5), BROKER: Aim(at_least=0.5)}
PROCESSES = 2
PER_BATCH, SEND_THREADS = 1_000, 4


@dataclass(frozen=True)
class ProxySizes:
    """All sizes. The defaults are those of a whole run."""

    runs: int = size(5, "Runs of each measurement, after one that does not count.")
    rows: int = size(10_000_000, "Messages of a topic.")
    java_rows: int = size(500_000, "Messages of the topics that Java reads.")
    queues: int = size(8, "Queues of the topics with several.")
    body_bytes: int = size(100, "Bytes of each body.")


@contextmanager
def run_servers() -> Iterator[tuple[ProxiedCluster, JavaLoad]]:
    """Runs a cluster with a proxy, and Java's clients, until the block ends.

    Raises SoftwareMissing and ProcessFailed.
    """
    with tempfile.TemporaryDirectory(prefix="rmqpull-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with (
            make_proxied_cluster(folder / "cluster", java_options=FOR_BENCHMARKS) as cluster,
            java_load(folder) as java,
        ):
            yield cluster, java


def fill(cluster: ProxiedCluster, java: JavaLoad, topic: str, queues: int, rows: int, body_bytes: int) -> list[int]:
    """Creates a topic with messages. Returns where its queues end. Raises Mismeasured."""
    administration = cluster.administration
    administration.create_topic(topic, queues)
    java.fill(cluster.addresses, topic, rows, body_bytes, PER_BATCH, SEND_THREADS)
    administration.wait_until_in_queues(topic, {one.name: one.address for one in cluster.brokers})
    ends = [administration.query_bounds(topic, queue)[1] for queue in range(queues)]
    if sum(ends) != rows:
        raise Mismeasured(f"topic {topic} has {sum(ends)} messages instead of {rows}")
    return ends


def read(name_servers: str, topic: str, ends: Sequence[int]) -> float:
    """Returns the messages per second of a read with the connector's client. Raises Mismeasured."""
    texts = [f"{queue}:{end}" for queue, end in enumerate(ends)]
    parts = [part for part in (texts[number::PROCESSES] for number in range(PROCESSES)) if part]
    alone = run_side_by_side([["bench.client_alone", name_servers, topic, "body", *part] for part in parts])
    if (alone.messages, alone.warnings) != (sum(ends), 0):
        raise Mismeasured(f"it reads {alone.messages} messages of {sum(ends)}, with {alone.warnings} warnings")
    return alone.messages / alone.seconds


def measure_reads(cluster: ProxiedCluster, java: JavaLoad, queues: int, sizes: ProxySizes) -> Comparison:
    """Measures the reads of topics with so many queues."""
    topic, small = f"of-{queues}", f"small-of-{queues}"
    ends = fill(cluster, java, topic, queues, sizes.rows, sizes.body_bytes)
    fill(cluster, java, small, queues, sizes.java_rows, sizes.body_bytes)
    proxy = cluster.proxy.remoting_address

    def read_with_java() -> float:
        return sizes.java_rows / java.read(proxy, small, sizes.java_rows, sizes.body_bytes)

    contenders: dict[str, Callable[[], float]] = {
        OURS: partial(read, proxy, topic, ends),
        BROKER: partial(read, cluster.addresses, topic, ends),
        JAVA: read_with_java,
    }
    several = f"{queues} queues" if queues > 1 else "1 queue"
    comparison = Comparison(f"proxy-{queues}", f"read through a proxy, {several}", "messages/s", AIMS)
    return measure(comparison, contenders, sizes.runs)


@click.command()
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="File for the figures.")
@size_options(ProxySizes)
def main(file: Path | None, **asked: Any) -> None:
    """Measure, print a table, and write all figures as JSON."""
    measure_alone()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # then servers are stopped too
    sizes = chosen(ProxySizes(), asked)
    is_whole = file is None and all(value is None for value in asked.values())
    console = Console(width=160)
    cores = pin_cores()
    refuse_a_busy_machine(is_whole, console)
    others, comparisons = Others(), list[Comparison]()
    try:
        with run_servers() as (cluster, java):
            comparisons += (measure_reads(cluster, java, queues, sizes) for queues in (sizes.queues, 1))
    except SoftwareMissing as missing:
        raise click.ClickException(str(missing)) from None
    of_run = {**machine(), "cores": cores, "rocketmq": RELEASE_5.server, **others.describe_run()}
    kept = document(comparisons, of_run, {one.name: getattr(sizes, one.name) for one in fields(sizes)})
    file = file or RESULTS / ("proxy.json" if is_whole else "latest.json")
    file.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    console.print(table(comparisons), conditions(kept), *reasons(comparisons), sep="\n")
    sys.exit(1 if any(comparison.failed for comparison in comparisons) else 0)


if __name__ == "__main__":
    main()
