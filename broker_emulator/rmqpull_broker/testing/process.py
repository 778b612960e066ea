"""A broker in another process: ``with BrokerProcess({"orders": 8}) as broker: …``.

For tests that kill, restart or stop a broker, and for tests in which the broker must not share a process with its
clients.
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

_READY = re.compile(rb"ready endpoints=(\S+) pid=\d+(?: remoting=(\S+))?(?: tls=(\S+))?(?: metrics=(\S+))?\n")
_READY_LINE_BYTES_MAX = 4096


class BrokerProcessError(Exception):
    """A broker process failed to start or to stop. The message ends with the last lines of its log."""


class BrokerProcess:
    """``rmqpull-broker serve`` on a free loopback port. A restart uses the same port.

    ``topics`` has topics by name, with their number of queues, or with (queues, type). Without ``data_dir``, messages
    are in memory and lost at the end of the process. ``extensions`` is the flag ``--extensions``; ``remoting`` is the
    flag ``--remoting``, such as ``127.0.0.1:0``; ``arguments`` are more arguments of ``serve``; ``environment`` is
    added to the environment of this process. The log is appended to ``log_file``, or written to a temporary file.
    ``command`` is the command before ``serve``, for example the broker of another Python environment. These attributes
    can change between two starts.

    Start the process with :meth:`start` or a ``with`` statement. The end of the ``with`` statement stops it.
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
        remoting: str | None = None,
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
        """The broker's address; before the first start, the address to listen on."""
        self.remoting = remoting
        """Where it listens for clients of the remoting protocol; after the first start, with the ports that it got."""
        self.remoting_addresses: list[str] = []
        """The addresses that these clients connect to, one for each logical broker; the first is the name server's."""
        self.tls_endpoints: str | None = None
        """The address for gRPC clients that speak TLS, if ``arguments`` has ``--tls-listen``."""
        self.metrics_endpoints: str | None = None
        """The address of the metrics page for Prometheus, if ``arguments`` has ``--metrics-listen``."""
        self.ready_s = 0.0
        """The seconds that the last start took."""
        self._process: subprocess.Popen[bytes] | None = None
        self._log: BinaryIO | None = None
        self._log_begin = 0

    @property
    def pid(self) -> int:
        """The process id of the last start. Raises BrokerProcessError before the first start."""
        return self._started().pid

    @property
    def is_running(self) -> bool:
        """Whether the process runs. Reaps a process that has ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the process, and returns when the broker serves.

        Raises BrokerProcessError when the process ends, is not ready within ``ready_timeout_s``, or already runs.
        """
        if self.is_running:
            raise BrokerProcessError(f"the broker already runs, as process {self.pid}: stop or kill it first")
        self.kill()  # reaps a process that has ended
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
        self.remoting_addresses = ready[2].decode().split(",") if ready[2] else []
        if self.remoting is not None and self.remoting.endswith(":0"):
            host = self.remoting.rpartition(":")[0]
            self.remoting = ",".join(f"{host}:{told.rpartition(':')[2]}" for told in self.remoting_addresses)
        self.tls_endpoints, self.metrics_endpoints = (told.decode() if told else None for told in ready.group(3, 4))

    def kill(self) -> None:
        """Kills the process with SIGKILL, like a crash. Does nothing when it has ended."""
        if self._process is not None:
            self._process.kill()
            self.wait()

    def stop(self) -> None:
        """Stops the process with SIGTERM. Does nothing when it was stopped or killed before.

        Raises BrokerProcessError after a minute, or when the exit code is not 0.
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
        """Sends a signal, such as SIGSTOP and SIGCONT to pause the broker. Does nothing when it has ended."""
        self._started().send_signal(number)

    def wait(self, timeout_s: float = END_TIMEOUT_S) -> int:
        """Waits for the end of the process. Returns its exit code, which is negative after a signal.

        Raises BrokerProcessError after the timeout; the process still runs then.
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
        """The broker's log since the last start."""
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
        command += ["--remoting", self.remoting] if self.remoting is not None else []
        return [*command, *self.arguments]

    def _open_log(self) -> None:
        if self._log is None or self.log_file is not None:
            # Stays open as long as this object exists, so that the log can be read.
            log = tempfile.TemporaryFile("ab+") if self.log_file is None else open(self.log_file, "ab+")  # noqa: SIM115
            weakref.finalize(self, log.close)
            self._log = log
        self._log_begin = os.fstat(self._log.fileno()).st_size

    def _await_ready(self, process: subprocess.Popen[bytes]) -> re.Match[bytes]:
        assert process.stdout is not None
        output = b""
        deadline_s = time.monotonic() + self.ready_timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not output.endswith(b"\n") and len(output) < _READY_LINE_BYTES_MAX:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or not selector.select(left_s):
                    raise self._failure(f"was not ready within {self.ready_timeout_s:g} s")
                part = os.read(process.stdout.fileno(), _READY_LINE_BYTES_MAX)
                if not part:
                    raise self._failure(f"ended with exit code {self.wait()} before it was ready")
                output += part
        ready = _READY.fullmatch(output)
        if ready is None:
            raise self._failure(f"printed {output.decode(errors='replace')!r} instead of its ready line")
        return ready

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BrokerProcessError("the broker has not been started")
        return self._process

    @staticmethod
    def _is_reaped(process: subprocess.Popen[bytes]) -> bool:
        return process.stdout is None or process.stdout.closed

    def _failure(self, what: str) -> BrokerProcessError:
        lines = self.log.splitlines()[-LOG_LINES_SHOWN:] or ["(the log is empty)"]
        where = "" if self.log_file is None else f"\n  The whole log is in {Path(self.log_file)}"
        output = "\n".join(f"  {line}" for line in lines)
        return BrokerProcessError(f"the broker {what}: {shlex.join(self._command())}\n{output}{where}")
