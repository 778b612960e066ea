"""A standalone Spark cluster on loopback: a master and two workers. Workers and executors are killed."""

from __future__ import annotations

import json
import time
from pathlib import Path

from processes.children import Child, Children, find_free_ports
from processes.spark import find_spark
from soak import kill_targets

HOSTS = ("127.0.0.1", "127.0.0.2")
"""The addresses of the workers. Spark runs a speculative attempt only on another host than the first attempt."""
CORES = 2
READY_SECONDS_MAX = 60.0
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": str(CORES),
    # A task runs twice if it is slower than the fastest of its stage, or than 300 ms in a stage of one or two tasks.
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.0",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.speculation.task.duration.threshold": "300ms",
    "spark.speculation.efficiency.enabled": "false",
    # Plain text, complete up to its last line: the log is read after its driver was killed.
    "spark.eventLog.enabled": "true",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "false",
}
_SPARK_CLASS = str(find_spark() / "bin" / "spark-class")
_DEPLOY = "org.apache.spark.deploy"


class Cluster:
    """A master and two workers with CORES each. A query needs ``url`` and ``settings`` to run there."""

    def __init__(self, children: Children, folder: Path) -> None:
        self._children = children
        self._folder = folder / "cluster"
        self._events = self._folder / "events"
        self._events.mkdir(parents=True)
        (port,) = find_free_ports()
        self.url = f"spark://{HOSTS[0]}:{port}"
        self.settings = {**SETTINGS, "spark.eventLog.dir": self._events.as_uri()}
        master = self._start("master", f"{_DEPLOY}.master.Master", "--host", HOSTS[0], "--port", str(port))
        master.wait_for_port(port, READY_SECONDS_MAX)
        self._workers = {host: self._start_worker(host) for host in HOSTS}

    @property
    def sessions(self) -> list[int]:
        """The sessions of the workers, with their executors and the Python processes of these."""
        return [worker.pid for worker in self._workers.values()]

    def kill_worker(self, number: int, seconds: float) -> None:
        """Kills a worker with everything that it has started, like the loss of a machine. Starts a new one later."""
        host = HOSTS[number % len(HOSTS)]
        self._workers[host].kill()
        time.sleep(seconds)
        self._workers[host] = self._start_worker(host)

    def connector_errors(self) -> set[str]:
        """Returns the errors of the connector in executors, from their logs."""
        return {error for log in self._folder.rglob("stderr") for error in kill_targets.read_connector_errors(log)}

    def speculation(self) -> tuple[int, int]:
        """Returns the number of speculative attempts, and of those that finished first."""
        return count_speculative(self._events)

    def _start_worker(self, host: str) -> Child:
        work = ("--work-dir", str(self._folder / host), "--cores", str(CORES), "--memory", "512m")
        return self._start(f"worker-{host}", f"{_DEPLOY}.worker.Worker", "--host", host, *work, self.url)

    def _start(self, name: str, main: str, *arguments: str) -> Child:
        command = [_SPARK_CLASS, main, "--webui-port", "0", *arguments]
        return self._children.start(name, command, self._folder / f"{name}.log")


def count_speculative(events: Path) -> tuple[int, int]:
    """Returns the number of speculative attempts in Spark's event logs, and of those that finished first.

    There may have been more: a killed driver takes the end of its log with it.
    """
    started = first = 0
    for log in events.iterdir():
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if '"Speculative":true' not in line or not line.endswith("}"):
                continue
            event = json.loads(line)
            started += event["Event"] == "SparkListenerTaskStart"
            first += event["Event"] == "SparkListenerTaskEnd" and event["Task End Reason"]["Reason"] == "Success"
    return started, first
