"""The example of a worker, as processes: one is killed and another ended, and each message is handled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.client.consumers.conftest import Cluster
from tests.harness.waiting import wait_until

WORKER = Path(__file__).parents[3] / "examples" / "worker.py"


class Worker:
    """A process, and the bodies of the messages that it has handled."""

    def __init__(self, cluster: Cluster) -> None:
        command = [sys.executable, str(WORKER), cluster.address, cluster.topic, cluster.group]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ})
        self.handled: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.handled.append(line.split()[-1])


@contextmanager
def working(cluster: Cluster, count: int) -> Iterator[list[Worker]]:
    workers = [Worker(cluster) for _ in range(count)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.wait(60)


@pytest.mark.processes
def test_each_message_is_handled_though_workers_are_killed(cluster: Cluster) -> None:
    cluster.create_topic(4)
    sent: list[str] = []

    def send() -> None:
        bodies = [str(number) for number in range(len(sent), len(sent) + 12)]
        cluster.send(*(body.encode() for body in bodies))
        sent.extend(bodies)

    with working(cluster, 3) as workers:
        send()
        wait_until(lambda: {body for own in workers for body in own.handled} >= set(sent), "handled by three")
        workers[0].process.kill()
        send()
        wait_until(lambda: {body for own in workers for body in own.handled} >= set(sent), "handled by two")
        workers[1].process.send_signal(signal.SIGTERM)
        assert workers[1].process.wait(60) == 0
        send()
        wait_until(lambda: {body for own in workers for body in own.handled} >= set(sent), "handled by one")
