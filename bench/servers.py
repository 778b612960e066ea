"""Servers as processes of their own, and what they take of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BROKER = ("-m", "rmqpull_broker", "serve", "--listen", "127.0.0.1:0")
BARE = (str(Path(__file__).with_name("bare.py")),)
_OWN_TICKS, _ENDED_TICKS = slice(11, 13), slice(13, 15)
"""Places in /proc/PID/stat behind the command's name, of user and system mode."""


@dataclass(frozen=True)
class Process:
    """Something that runs, and what it takes."""

    pid: int

    def resident_mb(self) -> float:
        """Its resident set, in megabytes."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii", errors="replace")
        kilobytes = next((line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")), "0")
        return int(kilobytes) * 1024 / 1e6

    def cpu_s(self) -> float:
        """Seconds of a core that it has taken so far: what does not change when others use the machine too."""
        return self._seconds(_OWN_TICKS)

    def ended_children_cpu_s(self) -> float:
        """The same of those of its children that have ended, and of theirs."""
        return self._seconds(_ENDED_TICKS)

    def _seconds(self, places: slice) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return sum(map(int, fields[places])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Server(Process):
    """A server that said it was ready."""

    endpoints: str
    ready_s: float


@contextmanager
def server(*arguments: str) -> Iterator[Server]:
    """Runs Python with these arguments until the block ends; the process must print the broker's ready line."""
    with tempfile.TemporaryFile("w+") as errors:
        begun = time.perf_counter()
        process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        try:
            words = process.stdout.readline().split()
            ready_s = time.perf_counter() - begun
            if words[:1] != ["ready"]:
                process.wait()
                errors.seek(0)
                raise SystemExit(f"the server did not start: {' '.join(arguments)}\n{errors.read()}")
            yield Server(process.pid, words[1].removeprefix("endpoints="), ready_s)
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def broker(data_dir: Path | None = None, topics: Sequence[str] = (), *flags: str) -> tuple[str, ...]:
    """The arguments of a broker."""
    named = [word for topic in topics for word in ("--topic", topic)]
    kept = ["--data-dir", str(data_dir)] if data_dir else []
    return (*BROKER, *named, *kept, *flags)
