"""What a stream's witnesses cost when a micro-batch is planned.

The connector's stream reader plans without Spark, in this process; the servers are other processes. A second reader is
the same but for its history, which looks at no message. The two take turns in the same rounds, so that other work on
the machine slows both.
"""

from __future__ import annotations

import gc
import json
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from pyspark import __version__ as SPARK_VERSION
from rich.console import Console

from bench.machine_load import Others, pin_cores, refuse_a_busy_machine
from bench.machine_lock import measure_alone
from bench.planning_figures import LIMIT_MS, Planned, make_document, markdown
from bench.planning_workloads import Feed, PlanningSizes, plan_first, plan_rounds, wait_for_rows
from bench.remoting_servers import APACHE
from bench.results import machine
from bench.servers import broker
from bench.sizes import chosen, size_options
from processes.apache.cluster import make_cluster
from processes.apache.releases import RELEASE_5
from processes.apache.servers import FOR_BENCHMARKS
from processes.maven import SoftwareMissing

RESULTS = Path(__file__).with_name("results")
SERVERS = {
    "columns": "rmqpull-broker, columns",
    "remoting": "rmqpull-broker, remoting",
    "apache": APACHE,
}
"""The servers by their names on the command line."""


def list_topics(sizes: PlanningSizes) -> dict[str, int]:
    """Returns the topics of a server, with their queues."""
    return {"first": sizes.queues, "many": sizes.queues, "one": 1, "row": 1}


@contextmanager
def run_server(name: str, topics: Mapping[str, int]) -> Iterator[Mapping[str, str]]:
    """Runs a server until the block ends. Yields the option of the source that names it.

    Raises SoftwareMissing and ProcessFailed.
    """
    with ExitStack() as running:
        folder = Path(
            running.enter_context(tempfile.TemporaryDirectory(prefix="rmqpull-bench-", ignore_cleanup_errors=True))
        )
        if name == "apache":
            cluster = running.enter_context(make_cluster(folder, java_options=FOR_BENCHMARKS))
            for topic, queues in topics.items():
                cluster.administration.create_topic(topic, queues)
            yield {"nameServers": cluster.addresses}
            return
        remoting = "127.0.0.1:0" if name == "remoting" else None
        started = running.enter_context(broker(folder, topics, remoting=remoting))
        yield {"nameServers": started.remoting_address} if remoting else {"endpoints": started.endpoints}


def measure(server: str, option: Mapping[str, str], sizes: PlanningSizes) -> list[Planned]:
    """Runs all workloads on a server."""
    feeds = {topic: Feed(option, topic, queues) for topic, queues in list_topics(sizes).items()}
    many = plan_rounds(feeds["many"], sizes.rounds)
    one = plan_rounds(feeds["one"], sizes.single_rounds)
    new, continued = plan_first(feeds["first"], sizes.starts)
    row = wait_for_rows(feeds["row"], sizes.messages)
    queues = f"{sizes.queues:,} queues"
    return [
        many.summarize(f"planning, {queues}", server, LIMIT_MS),
        one.summarize("planning, 1 queue", server, LIMIT_MS),
        row.summarize("acknowledgement of a send to row in hand, 1 queue", server, LIMIT_MS),
        new.summarize(f"first micro-batch of a new query, {queues}", server, None),
        continued.summarize(f"first micro-batch after a restart, {queues}", server, None),
    ]


@click.command()
@click.option("--server", "names", type=click.Choice([*SERVERS]), multiple=True, help="Only this server.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="File for the figures.")
@size_options(PlanningSizes)
def main(names: Sequence[str], file: Path | None, **asked: Any) -> None:
    """Measure, print a table, and write all figures as JSON."""
    measure_alone()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # then servers are stopped too
    sizes = chosen(PlanningSizes(), asked)
    is_whole = file is None and not names and all(value is None for value in asked.values())
    cores = pin_cores()
    refuse_a_busy_machine(is_whole, Console(width=160))
    gc.freeze()  # what the modules hold is no garbage, and the workloads collect often
    others, workloads = Others(), list[Planned]()
    try:
        for name in names or SERVERS:
            with run_server(name, list_topics(sizes)) as option:
                workloads += measure(SERVERS[name], option, sizes)
    except SoftwareMissing as missing:
        raise click.ClickException(str(missing)) from None
    run = others.describe_run()
    of_run = {**machine(), "cores": cores, "pyspark": SPARK_VERSION, "rocketmq": RELEASE_5.server, **run}
    kept = make_document(of_run, {one.name: getattr(sizes, one.name) for one in fields(sizes)}, workloads)
    file = file or RESULTS / ("planning.json" if is_whole else "latest.json")
    file.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    click.echo(markdown(kept))


if __name__ == "__main__":
    main()
