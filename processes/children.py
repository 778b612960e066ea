"""Child processes that end with everything that they have started.

A Spark program is four or more processes: Python, the JVM, PySpark's worker daemon and its workers. The daemon makes a
process group of its own, but it stays in its session. So each child gets a session of its own.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Protocol

from processes.process_table import list_session, read_name

KILL_SECONDS_MAX = 10.0
LOOPBACK = "127.0.0.1"
_LOG_LINES_SHOWN = 15
_LOOK_SECONDS = 0.02
# In an error of the JVM, a hundred of them follow each line that says something.
_JAVA_FRAME = ("at ", "... ")


class ProcessFailed(Exception):
    """A child has failed, or did not do in time what it should."""


class Signals:
    """Turns SIGINT, SIGTERM and SIGHUP into KeyboardInterrupt, except while a child is being started."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._held = 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._receive)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Raises at the end of the block what arrives within it. It replaces an error, which the signal may have
        caused: children in a terminal get it too.
        """
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            if self.received and not self._held:
                raise KeyboardInterrupt

    def ignore(self) -> None:
        """Ignores signals from now on: a second Ctrl-C must not interrupt the clean-up, which takes a second."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def _receive(self, number: int, _: FrameType | None) -> None:
        self.received = number
        self.ignore()
        if not self._held:
            raise KeyboardInterrupt


class Child:
    """A process with everything that it starts. Its standard error goes to a log file.

    Its standard output is read line by line, or goes to the log too (``logs_output``). Its standard input is empty, or
    a pipe that :meth:`write_line` writes to (``has_input``); it ends with this process.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        env: Mapping[str, str],
        folder: Path | None = None,
        logs_output: bool = False,
        has_input: bool = False,
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
                stdout=errors if logs_output else subprocess.PIPE,
                stderr=errors,
                env=env,
                cwd=folder,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process id. The process group and the session have the same id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def write_line(self, line: str) -> None:
        """Writes a line to the input, and flushes it. Raises BrokenPipeError when the process has ended."""
        assert self._process.stdin is not None, "started without has_input"
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def end_input(self) -> None:
        """Closes the input: the process reads its end."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()

    def terminate(self) -> None:
        """Sends SIGTERM to the process. Does nothing when it has ended."""
        self._process.terminate()

    def read_line(self, timeout_seconds: float) -> str | None:
        """Returns the next line of the output, or None when none comes in time. Raises EOFError after the last line."""
        try:
            line = self._lines.get(timeout=timeout_seconds)
        except queue.Empty:
            return None
        if line is None:
            raise EOFError
        return line

    def read_rest(self) -> list[str]:
        """Returns the lines that a process has left unread when it died."""
        self._reader.join(KILL_SECONDS_MAX)
        lines: list[str] = []
        with suppress(queue.Empty):
            while True:
                line = self._lines.get_nowait()
                lines += [line] if line else []
        return lines

    def wait(self, timeout_seconds: float) -> int:
        """Waits for the end and returns the exit code. Raises ProcessFailed when the process does not end in time."""
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise ProcessFailed(
                f"The {self.name} did not end within {timeout_seconds:.0f} s.{self.log_end()}"
            ) from None

    def wait_until(self, happened: Callable[[], bool], what: str, timeout_seconds: float) -> None:
        """Returns when it has happened. Raises ProcessFailed when the process ends first, or when time runs out."""
        deadline = time.monotonic() + timeout_seconds
        while not happened():
            if not self.is_running:
                raise ProcessFailed(f"The {self.name} ended before it {what}.{self.log_end()}")
            if time.monotonic() > deadline:
                raise ProcessFailed(f"The {self.name} has not {what} within {timeout_seconds:.0f} s.{self.log_end()}")
            time.sleep(_LOOK_SECONDS)

    def wait_for_port(self, port: int, timeout_seconds: float) -> None:
        """Returns when something listens at a port of the loopback interface. Raises ProcessFailed."""

        def listens() -> bool:
            with socket.socket() as client:
                return client.connect_ex((LOOPBACK, port)) == 0

        self.wait_until(listens, f"listened on port {port}", timeout_seconds)

    def kill(self) -> list[str]:
        """Sends SIGKILL to all processes of the session. Returns their names."""
        names = [read_name(pid) for pid in list_session(self.pid)]
        if self.is_running:
            os.killpg(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + KILL_SECONDS_MAX
        while left := list_session(self.pid):
            if time.monotonic() > deadline:
                raise ProcessFailed(f"The {self.name} left processes that do not die: {left}.")
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        self._process.wait(KILL_SECONDS_MAX)
        self.end_input()
        return sorted(names)

    def log_end(self) -> str:
        """Returns the end of the log, to be shown below an error."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        telling = [line for line in lines if line.strip() and not line.lstrip().startswith(_JAVA_FRAME)]
        return "".join(f"\n  {line}" for line in [*telling[-_LOG_LINES_SHOWN:], f"All of it is in {self.log}"])

    def _read(self) -> None:
        if self._process.stdout is not None:
            with self._process.stdout as lines:
                for line in lines:
                    self._lines.put(line.rstrip("\n"))
        self._lines.put(None)


class Killable(Protocol):
    """Something with processes. To kill it twice does nothing."""

    def kill(self) -> object:
        """Kills the processes with SIGKILL."""


class Startable(Killable, Protocol):
    """A server that starts again after a kill. To kill it before its first start does nothing."""

    def start(self) -> None:
        """Starts the server, and returns when it serves."""


class Children:
    """The processes of one run. All of them are killed at the end of the ``with`` block, the newest first."""

    def __init__(self, env: Mapping[str, str], signals: Signals | None = None) -> None:
        self._env = env
        self._signals = signals
        self._started: list[Killable] = []

    def start(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
        logs_output: bool = False,
    ) -> Child:
        """Starts a child. ``env`` is added to the environment of all children."""
        with self._hold_signals():
            child = Child(name, command, log, {**self._env, **(env or {})}, folder, logs_output)
            self._started.append(child)
        return child

    def adopt(self, started: Killable) -> None:
        """Kills at the end something that was started elsewhere."""
        self._started.append(started)

    def start_broker(self, broker: Startable) -> None:
        """Starts a broker, for the first time or again. A signal waits until it serves."""
        with self._hold_signals():
            if broker not in self._started:
                self._started.append(broker)
            broker.start()

    @contextmanager
    def _hold_signals(self) -> Iterator[None]:
        if self._signals is None:
            yield
            return
        with self._signals.held():
            yield

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._signals is not None:
            self._signals.ignore()
        for child in reversed(self._started):
            child.kill()


def find_free_ports(count: int = 1, host: str = LOOPBACK) -> list[int]:
    """Returns different ports that nothing listens on, for programs that must be told theirs."""
    listeners = [socket.create_server((host, 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports
