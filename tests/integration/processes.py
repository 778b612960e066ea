"""Spark in processes of its own: each is started in a session of its own, and ends with everything that it started."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sysconfig
import time
import venv
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark

import pyspark_rmqpull
import rmqpull_client
import rmqpull_proto

SPARK_BIN = Path(pyspark.__file__).parent / "bin"
ON_LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1"}
WAIT_S = 180


def free_port() -> int:
    """A port of the loopback interface that nobody had a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def processes_of_session(session: int) -> Iterator[int]:
    """The ids of all processes of a session: Python's workers leave their parent's group, but not its session."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # Behind the name, which may contain anything: state, parent, group, session.
            if int(stat.read_text().rpartition(")")[2].split()[3]) == session:
                yield int(stat.parent.name)


class SparkProcess:
    """A command in a session of its own, whose output goes to a file."""

    def __init__(self, command: list[str], log: Path, environment: Mapping[str, str], folder: Path) -> None:
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**inherited, **ON_LOOPBACK, **environment},
                cwd=folder,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        """What it has said."""
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """SIGKILL to it and to everything that it has started."""
        for process in processes_of_session(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait(WAIT_S)

    def end(self) -> int:
        """Waits for its end. Returns its exit code."""
        return self._process.wait(WAIT_S)

    def wait_until(self, happened: Callable[[], bool], what: str) -> None:
        """Returns when it has happened, and fails when this process ends before."""
        give_up = time.monotonic() + WAIT_S
        while not happened():
            assert self._process.poll() is None, f"ended before {what}:\n{self.log}"
            assert time.monotonic() < give_up, f"not {what} within {WAIT_S} s:\n{self.log}"
            time.sleep(0.05)

    def wait_for_port(self, port: int) -> None:
        """Returns when somebody listens there."""

        def listens() -> bool:
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", port)) == 0

        self.wait_until(listens, f"listening on {port}")


class SparkProcesses:
    """Starts processes in a folder, and their logs beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[SparkProcess] = []

    def start(self, name: str, *command: str, **environment: str) -> SparkProcess:
        local = {"SPARK_LOCAL_DIRS": str(self.folder / "local")}
        process = SparkProcess(list(command), self.folder / f"{name}.log", {**local, **environment}, self.folder)
        self._started.append(process)
        return process

    @classmethod
    @contextmanager
    def below(cls, folder: Path) -> Iterator[SparkProcesses]:
        """Whatever happens, nothing that was started outlives this."""
        processes = cls(folder)
        try:
            yield processes
        finally:
            for process in processes._started:
                process.kill()


def python_without_rmqpull(folder: Path) -> str:
    """An environment with everything that this one has, but for this project. Returns its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    (theirs,) = folder.glob("lib/python*/site-packages")
    for ours in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(ours).iterdir():
            if "rmqpull" not in entry.name and not (theirs / entry.name).exists():
                (theirs / entry.name).symlink_to(entry)
    python = folder / "bin" / "python"
    check = subprocess.run([python, "-c", "import pyspark_rmqpull"], capture_output=True, text=True, env={}, cwd=folder)
    assert "No module named 'pyspark_rmqpull'" in check.stderr
    return str(python)


def zip_of_connector(file: Path) -> None:
    """The three packages that a Spark application needs, as a zip that Python imports from."""
    with zipfile.ZipFile(file, "w") as archive:
        for package in (pyspark_rmqpull, rmqpull_client, rmqpull_proto):
            root = Path(str(package.__file__)).parent
            for module in sorted(root.rglob("*.py")):
                archive.write(module, Path(root.name) / module.relative_to(root))
