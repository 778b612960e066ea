"""Runs the Spark job to its end. Kills the broker after a quarter of the rows, and the job after half of them."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demo import checkpoint
from demo.screen import Bar, Screen
from demo.servers import Server
from processes.children import Child, Children, ProcessFailed

# A job that is silent for so long is stuck: a JVM starts in ten seconds, and the broker may be away for thirty.
SILENCE_SECONDS_MAX = 120.0
END_SECONDS_MAX = 30.0
LOOK_SECONDS = 0.01
BROKER_DOWN_SECONDS = 1.0


@dataclass(frozen=True)
class Job:
    """Starts the Spark job. Every start is the same: only the checkpoint differs."""

    children: Children
    server: Server
    group: str
    rows_per_batch: int
    result: Path
    checkpoint: Path
    log: Path

    def start(self) -> Child:
        arguments = {
            "--group": self.group,
            "--rows-per-batch": str(self.rows_per_batch),
            "--result": str(self.result),
            "--checkpoint": str(self.checkpoint),
        }
        command = [sys.executable, "-m", "demo.stream_job", *(word for pair in arguments.items() for word in pair)]
        for option in self.server.options.items():
            command += ["--server", *option]
        return self.children.start("Spark job", command, self.log)

    def is_writing(self) -> bool:
        """Whether a micro-batch has begun to write: the worst moment for a kill."""
        return checkpoint.unfinished(self.checkpoint) is not None and bool(checkpoint.orphan_files(self.result))


@dataclass(frozen=True)
class Outage:
    """A kill, and when work continued, in seconds since the start of the stream."""

    killed: float
    back: float


@dataclass
class Run:
    """What happened, for the checks and the picture. Times are seconds since the start of the stream."""

    arrived: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])  # the time, and all rows so far
    broker_outage: Outage | None = None
    job_outage: Outage | None = None
    killed_batch: int | None = None
    killed_batch_offsets: str = ""
    orphan_files: int = 0

    @property
    def rows(self) -> int:
        return self.arrived[-1][1]

    @property
    def streaming_seconds(self) -> float:
        """The time from the start to the last row, without the time in which the job was dead or its JVM was
        starting.
        """
        outage = self.job_outage.back - self.job_outage.killed if self.job_outage else 0.0
        return self.arrived[-1][0] - outage


class Supervisor:
    """Follows a run of the stream and kills broker and job."""

    def __init__(self, job: Job, total: int, screen: Screen, bar: Bar) -> None:
        self.run = Run()
        self._job = job
        self._total = total
        self._screen = screen
        self._bar = bar
        self._begin = 0.0

    def supervise(self) -> Run:
        killed = self._until_killed(self._job.start())
        self._to_the_end(self._job.start(), killed)
        return self.run

    def _until_killed(self, child: Child) -> float:
        for event in _events(child):
            if event.get("event") == "started":
                self._begin = time.monotonic()
            self._note(event)
            if self.run.broker_outage is None and self.run.rows * 4 >= self._total:
                self._kill_broker()
            if self.run.rows * 2 >= self._total and self._job.is_writing():
                return self._kill_job(child)
        raise ProcessFailed("The Spark job ended before it could be killed: there are too few micro-batches.")

    def _to_the_end(self, child: Child, killed: float) -> None:
        for event in _events(child):
            if event.get("event") == "started":
                self.run.job_outage = Outage(killed, self._now())
                self._screen.recovered(
                    f"the job is back after {self._now() - killed:.1f} s and continues from its checkpoint"
                )
            self._note(event)

    def _kill_broker(self) -> None:
        killed = self._now()
        self._job.server.kill()
        self._screen.alarm(f"SIGKILL to the broker (process {self._job.server.pid}), while the job runs")
        time.sleep(BROKER_DOWN_SECONDS)
        self._job.children.start_broker(self._job.server)
        self.run.broker_outage = Outage(killed, self._now())
        self._screen.recovered(
            f"the broker is back after {self._now() - killed:.1f} s, at the same address and with its messages"
        )

    def _kill_job(self, child: Child) -> float:
        names = child.kill()
        killed = self._now()
        for line in child.read_rest():
            self._note(_event(line))
        self.run.killed_batch = checkpoint.unfinished(self._job.checkpoint)
        where = "between two micro-batches"
        if self.run.killed_batch is not None:
            where = f"in the middle of micro-batch {self.run.killed_batch}"
            self.run.killed_batch_offsets = checkpoint.source_offsets(self._job.checkpoint, self.run.killed_batch)
        self.run.orphan_files = len(checkpoint.orphan_files(self._job.result))
        self._screen.alarm(f"SIGKILL to the job {where}: {_counted(names)}")
        return killed

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("event") != "batch":
            return
        rows, seconds = event["rows"], event["ms"] / 1000
        self.run.arrived.append((self._now(), self.run.rows + rows))
        self._bar.advance(rows)
        self._screen.line(
            f"micro-batch {event['id']:>2} {rows:>8,} flights {seconds:>6.2f} s {rows / seconds:>9,.0f} rows/s"
        )

    def _now(self) -> float:
        return time.monotonic() - self._begin


def _events(child: Child) -> Iterator[dict[str, Any]]:
    """Yields the events of the job, and an empty event whenever it is silent for a moment. Ends when the job
    succeeds.
    """
    heard = time.monotonic()
    while time.monotonic() - heard < SILENCE_SECONDS_MAX:
        try:
            line = child.read_line(LOOK_SECONDS)
        except EOFError:
            break
        if line is not None:
            heard = time.monotonic()
        yield _event(line or "")
    else:
        raise ProcessFailed(f"The Spark job was silent for {SILENCE_SECONDS_MAX:.0f} s.{child.log_end()}")
    if code := child.wait(END_SECONDS_MAX):
        raise ProcessFailed(f"The Spark job ended with exit code {code}.{child.log_end()}")


def _counted(names: list[str]) -> str:
    """Returns a text such as "1 java and 4 python processes"."""
    return " and ".join(f"{count} {name}" for name, count in Counter(names).items()) + " processes"


def _event(line: str) -> dict[str, Any]:
    # The JVM may print other lines.
    event: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
    return event
