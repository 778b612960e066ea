"""Processes of the demo: each in a session of its own, so that it can be killed with all its children.

A Spark job is four or more processes: Python, the JVM, PySpark's worker daemon and its workers. The daemon makes a
process group of its own, but it cannot leave the session.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType

from rmqpull_broker.testing import BrokerProcess

KILL_SECONDS_MAX = 10.0
LOG_LINES_SHOWN = 15
# A hundred of them follow each line of an error in the JVM that says what it is about.
JAVA_FRAME = ("at ", "... ")


class ProcessFailed(Exception):
    """A process of the demo did not do what it is there for."""


class Signals:
    """Turns SIGINT, SIGTERM and SIGHUP into KeyboardInterrupt, but not while a process is on its way into our list."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._held = 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._receive)

    @contextmanager
    def held(self) -> Iterator[None]:
        """What arrives within is raised at the end, also instead of an error: a child may have had the signal too."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            if self.received and not self._held:
                raise KeyboardInterrupt

    def ignore(self) -> None:
        """From now on: an impatient second Ctrl-C must not interrupt the clean-up, which takes a second at most."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def _receive(self, number: int, _: FrameType | None) -> None:
        self.received = number
        self.ignore()
        if not self._held:
            raise KeyboardInterrupt


class Child:
    """A process and everything that it starts. Its output is read line by line, its errors go to a file."""

    def __init__(self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=env,
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
        """The process id, which is also that of its group and its session."""
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def line(self, timeout_seconds: float) -> str | None:
        """The next line of its standard output, or None when none came in time. Raises EOFError after the last one."""
        try:
            line = self._lines.get(timeout=timeout_seconds)
        except queue.Empty:
            return None
        if line is None:
            raise EOFError
        return line

    def rest(self) -> list[str]:
        """The lines that were written before it died and not read yet."""
        self._reader.join(KILL_SECONDS_MAX)
        lines: list[str] = []
        with suppress(queue.Empty):
            while True:
                line = self._lines.get_nowait()
                lines += [line] if line else []
        return lines

    def wait(self, timeout_seconds: float) -> int:
        """Its exit code. Raises ProcessFailed when it does not end in time."""
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise ProcessFailed(
                f"The {self.name} did not end within {timeout_seconds:.0f} s.{self.last_words()}"
            ) from None

    def kill(self) -> list[str]:
        """SIGKILL to its group, then to what else is in its session. Returns the names of what was killed."""
        names = [_name(pid) for pid in session_members(self.pid)]
        if self.running:
            os.killpg(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + KILL_SECONDS_MAX
        while left := session_members(self.pid):
            if time.monotonic() > deadline:
                raise ProcessFailed(f"The {self.name} left processes that do not die: {left}.")
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        self._process.wait(KILL_SECONDS_MAX)
        return sorted(names)

    def last_words(self) -> str:
        """The end of its log, to be put below an error."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        telling = [line for line in lines if line.strip() and not line.lstrip().startswith(JAVA_FRAME)]
        return "".join(f"\n  {line}" for line in [*telling[-LOG_LINES_SHOWN:], f"All of it is in {self.log}"])

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line.rstrip("\n"))
        self._lines.put(None)


class Children:
    """All processes of one run; the end of the `with` block is the end of the last of them."""

    def __init__(self, signals: Signals, env: Mapping[str, str]) -> None:
        self._signals = signals
        self._env = env
        self._started: list[Child | BrokerProcess] = []

    def start(self, name: str, command: Sequence[str], log: Path) -> Child:
        with self._signals.held():
            child = Child(name, command, log, self._env)
            self._started.append(child)
        return child

    def start_broker(self, broker: BrokerProcess) -> None:
        """Starts a broker, the first time or again. Raises BrokerProcessError. A signal waits until it is ready."""
        with self._signals.held():
            if broker not in self._started:
                self._started.append(broker)
            broker.start()

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._signals.ignore()
        for child in reversed(self._started):
            child.kill()


def session_members(session: int) -> list[int]:
    """Ids of the living processes of a session. Without /proc (not Linux) there are none to be seen."""
    return [int(stat.parent.name) for stat in Path("/proc").glob("[0-9]*/stat") if _belongs(stat, session)]


def _belongs(stat: Path, session: int) -> bool:
    # After the name, which is in brackets and may hold anything: state, parent, group, session.
    with suppress(OSError):
        state, _, _, found = stat.read_text(errors="replace").rpartition(")")[2].split()[:4]
        return int(found) == session and state not in "ZX"  # the dead ones wait only for their parent
    return False


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    return "?"
