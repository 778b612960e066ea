"""Streams real flights through a broker into Spark: `make demo`, `make demo-apache`, or `python -m demo.flights`.

The steps, from top to bottom: start a broker, publish a year of flights, stream them into Parquet while the broker and
the job are killed, verify the result, show it. The exit code is 0 if all checks pass, else 1. Needs
rmqpull[spark,demo].
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.feather

from demo import checkpoint, flights_data, report, verify
from demo.apache import ApacheServer
from demo.run_folder import RunFolder, Unusable
from demo.screen import Screen
from demo.servers import QUEUES, TOPIC, RmqpullServer, Server
from demo.streaming import Job, Run, Supervisor
from processes.apache.calls import CallRefused
from processes.apache.java_clients import SendFailed
from processes.children import Children, ProcessFailed, Signals
from processes.maven import SoftwareMissing
from processes.spark import SparkMissing
from rmqpull_broker.testing import BrokerProcessError
from rmqpull_client.errors import RmqpullError

GROUP = "demo"
ROWS_PER_BATCH = 24_000
BATCHES_MIN = 14
SERVERS: dict[str, Callable[[RunFolder], Server]] = {"rmqpull": RmqpullServer, "apache": ApacheServer}
RESULT_SECONDS_MAX = 120.0


@dataclass(frozen=True)
class Demo:
    """The steps of the demo, and what they share."""

    screen: Screen
    children: Children
    folder: RunFolder
    server: Server
    flights: pa.Table

    def run(self) -> int:
        """Runs all steps and returns the number of failed checks."""
        self.start_server()
        self.publish()
        run = self.stream()
        rows, summary = self.read_result()
        checks = self.verify(run, rows, summary)
        self.show(run, summary)
        self.server.stop()
        return sum(not check.holds for check in checks)

    def start_server(self) -> None:
        self.screen.step(1, f"Start {self.server.name} with the topic {TOPIC} and {QUEUES} queues")
        self.children.start_broker(self.server)
        where = ", ".join(f"{name} {value}" for name, value in self.server.options.items())
        self.screen.line(f"serving at {where}, process {self.server.pid}")

    def publish(self) -> None:
        total = self.flights.num_rows
        self.screen.step(2, f"Publish {total:,} flights of 2013 from New York, one message each")
        begin = time.monotonic()
        with self.screen.bar("published", total) as bar:
            self.server.publish(self.flights, bar.advance)
        seconds = time.monotonic() - begin
        self.screen.line(f"published in {seconds:.1f} s, {total / seconds:,.0f} messages/s, all stored")

    def stream(self) -> Run:
        total = self.flights.num_rows
        self.screen.step(3, "Stream them into Parquet with a Spark job, and kill the job half-way")
        self.screen.line("starting Spark")
        rows_per_batch = min(ROWS_PER_BATCH, -(-total // BATCHES_MIN))
        folder = self.folder
        job = Job(self.children, self.server, GROUP, rows_per_batch, folder.result, folder.checkpoint, folder.job_log)
        with self.screen.bar("streamed", total, quiet=True) as bar:
            run = Supervisor(job, total, self.screen, bar).supervise()
        rate = total / run.streaming_seconds
        self.screen.line(
            f"streamed in {run.streaming_seconds:.1f} s, {rate:,.0f} rows/s, without the restart of the job"
        )
        return run

    def read_result(self) -> tuple[pa.Table, pa.Table]:
        """Returns the rows, and Spark's summary per carrier."""
        self.screen.step(4, "Verify: a new Spark session reads the result, and it is compared with the file")
        rows, summary = self.folder.work / "rows.arrow", self.folder.work / "summary.arrow"
        arguments = ["--result", str(self.folder.result), "--rows", str(rows), "--summary", str(summary)]
        command = [sys.executable, "-m", "demo.result_job", *arguments]
        child = self.children.start("reader of the result", command, self.folder.job_log)
        if code := child.wait(RESULT_SECONDS_MAX):
            raise ProcessFailed(f"The reader of the result ended with exit code {code}.{child.log_end()}")
        return pa.feather.read_table(str(rows)), pa.feather.read_table(str(summary))

    def verify(self, run: Run, rows: pa.Table, summary: pa.Table) -> list[verify.Check]:
        offsets = self.server.read_offsets(GROUP)
        folder = self.folder
        checks = [
            verify.every_flight_once(self.flights, rows),
            verify.flights_unchanged(self.flights, rows),
            verify.carriers_agree(flights_data.carrier_summary(self.flights), summary),
            verify.every_offset_once(offsets.max_offsets, rows),
            verify.group_offsets_at_end(GROUP, offsets.max_offsets, offsets.consumer_offsets),
            verify.partitions_averaged(checkpoint.micro_batches(folder.checkpoint, TOPIC), rows),
        ]
        if run.killed_batch is not None:
            after = checkpoint.source_offsets(folder.checkpoint, run.killed_batch)
            checks.append(verify.killed_batch_replayed(run.killed_batch, run.killed_batch_offsets, after))
        for check in checks:
            self.screen.check(check.name, check.mismatches)
        if run.orphan_files:
            self.screen.line(f"files of the killed micro-batch, which are not part of the result: {run.orphan_files}")
        return checks

    def show(self, run: Run, summary: pa.Table) -> None:
        self.screen.step(5, "The result: mean delays by carrier, in minutes")
        airlines = flights_data.read_airlines()
        self.screen.table(report.carrier_table(summary, airlines))
        report.draw(self.folder.picture, summary, airlines, run)
        self.screen.line(f"picture: {self.folder.picture}")
        self.screen.line(f"result:  {self.folder.result}")


@click.command()
@click.option(
    "--rows", type=click.IntRange(1_000, flights_data.FLIGHT_COUNT), help="Number of flights to use. Default: all."
)
@click.option(
    "--server", type=click.Choice(list(SERVERS)), default="rmqpull", show_default=True, help="The broker to use."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("build/demo"),
    show_default=True,
    help="Folder for all files.",
)
def main(rows: int | None, server: str, output: Path) -> None:
    """Stream a year of real flights through a broker into Spark, kill both on the way, and verify the result."""
    begin = time.monotonic()
    screen = Screen()
    signals = Signals()
    try:
        with RunFolder.make_new(output) as folder, Children(folder.environment(), signals) as children:
            flights = flights_data.read_flights(rows)
            failed = Demo(screen, children, folder, SERVERS[server](folder), flights).run()
    except KeyboardInterrupt:
        screen.error("Stopped. No process is left running.")
        sys.exit(128 + (signals.received or 0))
    except SoftwareMissing as missing:
        screen.error(f"Apache RocketMQ cannot run here: {missing}. `make demo` does the same with rmqpull-broker.")
        sys.exit(1)
    except (
        ProcessFailed,
        CallRefused,
        SendFailed,
        BrokerProcessError,
        RmqpullError,
        flights_data.DataMissing,
        Unusable,
        SparkMissing,
    ) as failure:
        screen.error(str(failure))
        sys.exit(1)
    screen.verdict(failed, time.monotonic() - begin)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
