"""Apache's Java clients as the load of a benchmark: a warm JVM that runs one workload after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.comparison import Mismeasured
from processes.apache.java_programs import start_java
from processes.apache.releases import RELEASE_5
from processes.children import Child
from processes.process_table import Process

JAVA_OPTIONS = ("-server", "-Xms512m", "-Xmx1g", "-XX:-UsePerfData")
PULL_BATCH_SIZE = 32
"""A broker with the default configuration returns no more messages per pull."""
RESPONSE_S_MAX = 900.0
FIRST_S_MAX = 60.0
PAUSE_MS = 5
"""The pause between two messages that are timed on their way to the consumer: long enough for its next pull to park."""


@dataclass(frozen=True)
class JavaLoad:
    """The process with the clients."""

    process: Child

    def cpu_s(self) -> float:
        """Returns the processor time of the clients so far, in seconds."""
        return Process(self.process.pid).cpu_s()

    def read(
        self, name_servers: str, topic: str, rows: int, body_bytes: int, pull_batch_size: int = PULL_BATCH_SIZE
    ) -> float:
        """Lets a lite pull consumer count the messages of a topic. Returns the seconds with its start. Raises
        Mismeasured, as all workloads do.
        """
        return float(self._ask("read", name_servers, topic, rows, body_bytes, pull_batch_size))

    def push(self, name_servers: str, topic: str, rows: int, body_bytes: int) -> float:
        """Lets a push consumer, the only member of a new group, count the messages. Returns the seconds."""
        return float(self._ask("push", name_servers, topic, rows, body_bytes))

    def write(self, name_servers: str, topic: str, rows: int, body_bytes: int, per_batch: int, threads: int) -> float:
        """Sends messages, each alone if ``per_batch`` is 1. Returns the seconds with the start of the producer."""
        return float(self._ask("write", name_servers, topic, rows, body_bytes, per_batch, threads))

    def wake(self, name_servers: str, topic: str, messages: int, body_bytes: int) -> list[float]:
        """Sends messages to a waiting push consumer, one at a time. Returns the milliseconds from the start of each
        send until the consumer has the message.
        """
        return list(map(float, self._ask("wake", name_servers, topic, messages, body_bytes, PAUSE_MS).split()))

    def wake_for(
        self, name_servers: str, topic: str, seconds: float, body_bytes: int, pause_ms: int = PAUSE_MS
    ) -> list[float]:
        """Does the same for this many seconds after the first message, however many messages it sends."""
        words = (name_servers, topic, round(seconds * 1000), body_bytes, pause_ms)
        return list(map(float, self._ask("wakefor", *words).split()))

    def fill(self, name_servers: str, topic: str, rows: int, body_bytes: int, per_batch: int, threads: int) -> None:
        """Sends messages in batches, to all queues in turn."""
        self._ask("fill", name_servers, topic, rows, body_bytes, per_batch, threads)

    def _ask(self, *words: object) -> str:
        self.process.write_line(" ".join(map(str, words)))
        try:
            response = self.process.read_line(RESPONSE_S_MAX)
        except EOFError:
            raise Mismeasured(f"the Java process ended{self.process.log_end()}") from None
        if response is None:
            raise Mismeasured(f"Java has not finished within {RESPONSE_S_MAX:.0f} s")
        if response.startswith("error: "):
            raise Mismeasured(f"Java failed: {response.removeprefix('error: ')}")
        return response


@contextmanager
def java_load(folder: Path) -> Iterator[JavaLoad]:
    """Runs the clients until the block ends. Raises SoftwareMissing."""
    process = start_java(RELEASE_5, "Bench", folder / "java.log", java_options=JAVA_OPTIONS, has_input=True)
    try:
        yield JavaLoad(process)
    finally:
        process.kill()


def first_message_s(name_servers: str, topic: str, folder: Path) -> float:
    """Returns the seconds from the start of a JVM until its push consumer has the message that its producer has sent.

    Raises Mismeasured and SoftwareMissing.
    """
    begun = time.monotonic()
    process = start_java(RELEASE_5, "First", folder / "first.log", arguments=[name_servers, topic])
    try:
        line = process.read_line(FIRST_S_MAX)
    except EOFError:
        raise Mismeasured(f"the Java process ended{process.log_end()}") from None
    finally:
        process.kill()
    if line != "first":
        raise Mismeasured(f"no message arrived within {FIRST_S_MAX:.0f} s")
    return time.monotonic() - begun
