"""For all tests: a broker as a process of its own, which can be killed and started again on the same port."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from hypothesis import settings

# No test asserts a time, also not that of one example of a property.
settings.register_profile("rmqpull", deadline=None)
settings.load_profile("rmqpull")

END_TIMEOUT_S = 60


class BrokerProcess:
    """``python -m rmqpull_broker serve …``. Ended with :meth:`kill`, and begun again with :meth:`start`."""

    def __init__(self, topics: dict[str, int], data_dir: Path | None = None, extensions: str = "columns") -> None:
        self.data_dir = data_dir
        self.endpoints = "127.0.0.1:0"
        self._topics = [word for name, queues in topics.items() for word in ("--topic", f"{name}:{queues}")]
        self._extensions = extensions
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Returns when it serves; the second time on the port that it got the first time."""
        command = [sys.executable, "-m", "rmqpull_broker", "serve", "--listen", self.endpoints, *self._topics]
        command += ["--extensions", self._extensions]
        command += ["--data-dir", str(self.data_dir)] if self.data_dir else []
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        ready = self._process.stdout.readline().split()
        assert ready[:1] == ["ready"], f"the broker did not start: {command}"
        self.endpoints = ready[1].removeprefix("endpoints=")

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate(timeout=END_TIMEOUT_S)
            self._process = None

    def stop(self) -> None:
        """SIGTERM: a graceful end."""
        if self._process is not None:
            self._process.terminate()
            self._process.communicate(timeout=END_TIMEOUT_S)
            self._process = None

    def restart(self, data_dir: Path | None = None, extensions: str | None = None) -> None:
        """A crash and a new start, perhaps with other data or other extensions."""
        self.kill()
        self.data_dir = data_dir or self.data_dir
        self._extensions = extensions or self._extensions
        self.start()


StartBroker = Callable[..., BrokerProcess]


@contextmanager
def _started_brokers() -> Iterator[StartBroker]:
    with ExitStack() as started:

        def start(topics: dict[str, int], data_dir: Path | None = None, extensions: str = "columns") -> BrokerProcess:
            broker = BrokerProcess(topics, data_dir, extensions)
            started.callback(broker.kill)
            broker.start()
            return broker

        yield start


@pytest.fixture
def start_broker() -> Iterator[StartBroker]:
    """Starts broker processes with the arguments of :class:`BrokerProcess`, and ends them after the test."""
    with _started_brokers() as start:
        yield start


@pytest.fixture(scope="session")
def start_session_broker() -> Iterator[StartBroker]:
    """As ``start_broker``, for brokers that many tests share."""
    with _started_brokers() as start:
        yield start
