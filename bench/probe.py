"""A Spark session of its own that does one read: times its first query, or watches its memory.

usage: python -m bench.probe cold|memory rmqpull|Kafka|"engine ceiling" ENDPOINTS TOPIC ROWS
Its last line of output has the seconds, or the peaks of each kind of process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

from bench.comparison import KAFKA, OURS, Mismeasured
from bench.session import session
from bench.timing import batch_seconds, stream_seconds
from bench.topics import of_kafka, ours, with_selection
from processes.process_table import Process, list_descendants, read_command_line
from processes.spark import kind_of

EVERY_S = 0.05
_END_S = 60


def ask(kind: str, contender: str, target: tuple[str, str], rows: int) -> Any:
    """Runs a probe in a process of its own and returns its result. ``target`` is endpoints and topic."""
    command = [sys.executable, "-m", "bench.probe", kind, contender, *target, str(rows)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Mismeasured(f"the probe failed: {' '.join(command[3:])}")
    return json.loads(done.stdout.splitlines()[-1])


class Watch:
    """Samples the resident sets of the session's processes within a block."""

    def __init__(self) -> None:
        self._samples: list[dict[str, float]] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(_END_S)

    def _run(self) -> None:
        while not self._stopped.wait(EVERY_S):
            self._samples.append(largest_of_each_kind(os.getpid()))

    def peaks(self) -> dict[str, tuple[float, float]]:
        """Returns the largest resident set in the first and in the second half of the time, by kind of process, in
        megabytes.
        """
        kinds = {kind for sample in self._samples for kind in sample}
        middle = len(self._samples) // 2
        return {
            kind: (
                max((sample.get(kind, 0) for sample in self._samples[:middle]), default=0),
                max((sample.get(kind, 0) for sample in self._samples[middle:]), default=0),
            )
            for kind in sorted(kinds)
        }


def largest_of_each_kind(pid: int) -> dict[str, float]:
    """Returns the resident set of the largest process of each kind, in megabytes."""
    found: dict[str, float] = {}
    for child in list_descendants(pid):
        try:
            kind = kind_of(read_command_line(child))
            if kind is not None:
                found[kind] = max(found.get(kind, 0), Process(child).resident_mb())
        except OSError:  # it has ended
            continue
    return found


def rows_of(contender: str, reader: Any, endpoints: str, topic: str, rows: int) -> Any:
    """Returns the data frame that reads a whole topic."""
    if contender == OURS:
        return ours(reader, endpoints)
    if contender == KAFKA:
        return of_kafka(reader, endpoints, topic)
    ready = reader.format("ceiling").option("partitions", 8).option("rowsPerPartition", rows // 8)
    return with_selection(ready.option("bodyBytes", 100), None).load()


def main() -> None:
    """Does one read."""
    kind, contender, endpoints, topic, rows = sys.argv[1:]
    with session() as opened:
        if kind == "cold":
            begun = time.perf_counter()
            batch_seconds(rows_of(contender, opened.spark.read, endpoints, topic, int(rows)))
            print(json.dumps(time.perf_counter() - begun))
            return
        with Watch() as watch:
            stream_seconds(rows_of(contender, opened.spark.readStream, endpoints, topic, int(rows)), int(rows))
        print(json.dumps(watch.peaks()))


if __name__ == "__main__":
    main()
