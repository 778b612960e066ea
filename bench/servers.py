"""Servers as processes of their own, and what they take of the machine."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BROKER = ("-m", "rmqpull_broker", "serve", "--listen", "127.0.0.1:0")
BARE = (str(Path(__file__).with_name("bare.py")),)


@dataclass(frozen=True)
class Server:
    """A server that said it was ready."""

    endpoints: str
    pid: int
    ready_s: float

    def resident_mb(self) -> float:
        """Its resident set, in megabytes."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(kilobytes) / 1000


@contextmanager
def server(*arguments: str) -> Iterator[Server]:
    """Runs Python with these arguments until the block ends; the process must print the broker's ready line."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        words = process.stdout.readline().split()
        if words[:1] != ["ready"]:
            raise SystemExit(f"the server did not start: {' '.join(arguments)}")
        yield Server(words[1].removeprefix("endpoints="), process.pid, time.perf_counter() - begun)
    finally:
        process.terminate()
        process.wait()


def broker(data_dir: Path | None = None, topics: Sequence[str] = (), *flags: str) -> tuple[str, ...]:
    """The arguments of a broker."""
    named = [word for topic in topics for word in ("--topic", topic)]
    kept = ["--data-dir", str(data_dir)] if data_dir else []
    return (*BROKER, *named, *kept, *flags)
