"""Reads queues of an Apache broker with the connector's client, without Spark, and throws the rows away.

It is a program, so that several processes can share the queues, as Spark's tasks do.

usage: python -m bench.client_alone NAME_SERVERS TOPIC COLUMNS QUEUE:UNTIL_OFFSET...
COLUMNS are names with commas between them. It prints its seconds, its processor time, the number of messages, and how
many warnings the client has logged, as JSON.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.comparison import Mismeasured
from pyspark_rmqpull.worker import prepare_worker
from rmqpull_client.connection import Connection
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.transports.choice import connect

BROKER_NAME = "broker-a"
TIMEOUT_MS = 60_000
RUN_S_MAX = 900


@dataclass(frozen=True)
class Alone:
    """What such programs have printed, when several ran side by side."""

    seconds: float
    cpu_s: float
    messages: int
    warnings: int


def run_side_by_side(commands: Sequence[Sequence[str]]) -> Alone:
    """Runs modules as processes, all at the same time. Returns the longest time and the sums. Raises Mismeasured."""
    running = [
        subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True) for command in commands
    ]
    try:
        printed = [process.communicate(timeout=RUN_S_MAX)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    if any(process.returncode for process in running):
        raise Mismeasured(f"the program {commands[0][0]} failed")
    figures = [json.loads(text.splitlines()[-1]) for text in printed]
    return Alone(
        max(one["seconds"] for one in figures),
        sum(one["cpu_s"] for one in figures),
        sum(one["messages"] for one in figures),
        sum(one.get("warnings", 0) for one in figures),  # only some programs count them
    )


class Warnings(logging.Handler):
    """Counts warnings, such as that a server has fallen silent."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Counts one."""
        self.count += 1


def main() -> None:
    """Reads, and prints the figures."""
    name_servers, topic, columns, *ends = sys.argv[1:]
    prepare_worker()  # as in a task
    warnings = Warnings()
    logging.getLogger("rmqpull_client").addHandler(warnings)
    ranges = []
    for text in ends:
        queue_id, until_offset = map(int, text.split(":"))
        ranges.append(QueueRange(MessageQueue(topic, BROKER_NAME, queue_id), 0, until_offset))
    begun, begun_cpu_s = time.perf_counter(), time.process_time()
    client = connect(Connection(name_servers=name_servers, request_timeout_ms=TIMEOUT_MS))
    messages = sum(
        batch.num_rows
        for rows in client.read("bench", ranges, columns.split(","))
        for queue in rows
        for batch in queue.batches
    )
    seconds, cpu_s = time.perf_counter() - begun, time.process_time() - begun_cpu_s
    print(json.dumps({"seconds": seconds, "cpu_s": cpu_s, "messages": messages, "warnings": warnings.count}))


if __name__ == "__main__":
    main()
