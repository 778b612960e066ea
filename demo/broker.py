"""The broker of the demo: a process with a data directory, which can be killed and started again in the same place."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from processes import Child, Children, ProcessFailed

TOPIC = "flights"
QUEUES = 8
READY_SECONDS_MAX = 30.0


class Broker:
    """Serves from construction on. After a restart it has the same endpoints and every message it acknowledged."""

    def __init__(self, children: Children, data: Path, log: Path) -> None:
        self.endpoints = "127.0.0.1:0"
        self._children = children
        self._log = log
        self._arguments = ["--topic", f"{TOPIC}:{QUEUES}", "--data-dir", str(data)]
        self.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> float:
        """Start it, the first time on a free port. Returns the seconds until it serves."""
        begin = time.monotonic()
        serve = [sys.executable, "-m", "rmqpull_broker", "serve", "--listen", self.endpoints, *self._arguments]
        self._process = self._children.start("broker", serve, self._log)
        self.endpoints = _endpoints(self._process)
        return time.monotonic() - begin

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        """As an operator would. Raises ProcessFailed unless it ends by itself and without an error."""
        if (code := self._process.terminate()) != 0:
            raise ProcessFailed(f"The broker ended with exit code {code}.{self._process.last_words()}")


def _endpoints(process: Child) -> str:
    """What it says when it is ready: `ready endpoints=127.0.0.1:41234 pid=4711`."""
    try:
        line = process.line(READY_SECONDS_MAX) or "nothing"
    except EOFError:
        line = "nothing, and ended"
    ready = re.fullmatch(r"ready endpoints=(\S+) pid=\d+", line)
    if ready is None:
        raise ProcessFailed(f"The broker is not ready: it said {line}.{process.last_words()}")
    return ready[1]
