"""A broker as a process of its own: ``with BrokerProcess({"orders": 8}) as broker: …``.

For tests of what happens when a broker is killed, restarted or stopped, and for tests in which the broker must not
share a Python process with its clients.
"""

from __future__ import annotations

import os
import re
import selectors
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from rmqpull_broker.testing.embedded import Topics

READY_TIMEOUT_S = 60.0
END_TIMEOUT_S = 60.0
LOG_LINES_SHOWN = 20

_READY = re.compile(rb"ready endpoints=(\S+) pid=\d+(?: metrics=(\S+))?\n")
_READY_LINE_BYTES_MAX = 4096


class BrokerProcessError(Exception):
    """A broker process did not start or did not end as it should. The message ends with the last lines of its log."""


class BrokerProcess:
    """``rmqpull-broker serve`` on a free loopback port. Each later start uses the port of the first.

    ``topics`` gives topics by name with their numbers of queues, or with (queues, type). Without ``data_dir`` messages
    live in memory and end with the process. ``extensions`` is the flag ``--extensions``; ``arguments`` are further
    arguments of ``serve``, and ``environment`` is added to this process's own. The log is appended to ``log_file``, or
    goes to a temporary file. ``command`` is what ``serve`` is an argument of: the broker of another environment, for
    example. These attributes can be changed between two starts.

    Nothing is started before :meth:`start` or the ``with`` statement, whose end stops the process.
    """

    def __init__(
        self,
        topics: Topics | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        extensions: str | None = None,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        listen: str = "127.0.0.1:0",
        log_file: str | os.PathLike[str] | None = None,
        ready_timeout_s: float = READY_TIMEOUT_S,
        command: Sequence[str] = (sys.executable, "-m", "rmqpull_broker"),
    ) -> None:
        self.topics: Topics = dict(topics or {})
        self.data_dir = data_dir
        self.extensions = extensions
        self.arguments = tuple(arguments)
        self.environment = dict(environment or {})
        self.log_file = log_file
        self.ready_timeout_s = ready_timeout_s
        self.command = tuple(command)
        self.endpoints = listen
        """Where it serves; before the first start, where it will listen."""
        self.metrics_endpoints: str | None = None
        """Where its page for Prometheus is, if ``--metrics-listen`` is among the arguments."""
        self.ready_s = 0.0
        """How many seconds the newest start took."""
        self._process: subprocess.Popen[bytes] | None = None
        self._log: BinaryIO | None = None
        self._log_begin = 0

    @property
    def pid(self) -> int:
        """The process id of the newest start. Raises BrokerProcessError before the first."""
        return self._started().pid

    @property
    def is_running(self) -> bool:
        """Whether the process is there; a process that has ended is reaped."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Returns when the broker serves. Raises BrokerProcessError when it ends instead, when it is not ready within
        ``ready_timeout_s``, and when it is running already.
        """
        if self.is_running:
            raise BrokerProcessError(f"the broker runs already, as process {self.pid}: stop or kill it first")
        self.kill()  # reaps one that died by itself
        self._open_log()
        begin = time.monotonic()
        self._process = subprocess.Popen(
            self._command(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **self.environment},
        )
        try:
            ready = self._await_ready(self._process)
        except BaseException:
            self.kill()
            raise
        self.ready_s = time.monotonic() - begin
        self.endpoints = ready[1].decode()
        self.metrics_endpoints = ready[2].decode() if ready[2] else None

    def kill(self) -> None:
        """Ends the process with SIGKILL, as a crash does. Does nothing when it has ended."""
        if self._process is not None:
            self._process.kill()
            self.wait()

    def stop(self) -> None:
        """Ends the process with SIGTERM, in good order. Does nothing when it has been ended before.

        Raises BrokerProcessError when it takes longer than a minute, and when its exit code is not 0.
        """
        if self._process is None or self._is_reaped(self._process):
            return
        self._process.terminate()
        try:
            code = self.wait()
        except BrokerProcessError:
            self.kill()
            raise
        if code:
            raise self._failure(f"ended with exit code {code}")

    def restart(self) -> None:
        """Kills the broker and starts it again."""
        self.kill()
        self.start()

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal, such as SIGSTOP and SIGCONT to make the broker stall. Does nothing when it has ended."""
        self._started().send_signal(number)

    def wait(self, timeout_s: float = END_TIMEOUT_S) -> int:
        """Waits for the process's end and returns its exit code, which is negative after a signal.

        Raises BrokerProcessError when it does not end in time; it then goes on running.
        """
        process = self._started()
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise self._failure(f"did not end within {timeout_s:.0f} s") from None
        assert process.stdout is not None
        process.stdout.close()
        return code

    @property
    def log(self) -> str:
        """What the broker has logged since the newest start."""
        if self._log is None:
            return ""
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size - self._log_begin, self._log_begin).decode(errors="replace")

    def __enter__(self) -> BrokerProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self.is_running:
            self.stop()
        else:
            self.kill()

    def _command(self) -> list[str]:
        command = [*self.command, "serve", "--listen", self.endpoints]
        for name, shape in self.topics.items():
            queues, topic_type = (shape, None) if isinstance(shape, int) else shape
            command += ["--topic", f"{name}:{queues}" + (f":{topic_type.value}" if topic_type else "")]
        command += ["--data-dir", os.fspath(self.data_dir)] if self.data_dir is not None else []
        command += ["--extensions", self.extensions] if self.extensions is not None else []
        return [*command, *self.arguments]

    def _open_log(self) -> None:
        if self._log is None or self.log_file is not None:
            # Not closed before this object goes: until then it can be read.
            log = tempfile.TemporaryFile("ab+") if self.log_file is None else open(self.log_file, "ab+")  # noqa: SIM115
            weakref.finalize(self, log.close)
            self._log = log
        self._log_begin = os.fstat(self._log.fileno()).st_size

    def _await_ready(self, process: subprocess.Popen[bytes]) -> re.Match[bytes]:
        assert process.stdout is not None
        said = b""
        give_up = time.monotonic() + self.ready_timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not said.endswith(b"\n") and len(said) < _READY_LINE_BYTES_MAX:
                left_s = give_up - time.monotonic()
                if left_s <= 0 or not selector.select(left_s):
                    raise self._failure(f"was not ready within {self.ready_timeout_s:g} s")
                part = os.read(process.stdout.fileno(), _READY_LINE_BYTES_MAX)
                if not part:
                    raise self._failure(f"ended with exit code {self.wait()} before it was ready")
                said += part
        ready = _READY.fullmatch(said)
        if ready is None:
            raise self._failure(f"said {said.decode(errors='replace')!r} instead of its ready line")
        return ready

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BrokerProcessError("the broker has not been started")
        return self._process

    @staticmethod
    def _is_reaped(process: subprocess.Popen[bytes]) -> bool:
        return process.stdout is None or process.stdout.closed

    def _failure(self, what: str) -> BrokerProcessError:
        lines = self.log.splitlines()[-LOG_LINES_SHOWN:] or ["(it logged nothing)"]
        where = "" if self.log_file is None else f"\n  All of its log is in {Path(self.log_file)}"
        said = "\n".join(f"  {line}" for line in lines)
        return BrokerProcessError(f"the broker {what}: {shlex.join(self._command())}\n{said}{where}")
