"""Servers as processes, for benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from processes.process_table import Process
from rmqpull_broker.testing import BrokerProcess, Topics

BARE = "bench.bare_grpc_server"


@dataclass(frozen=True)
class Server(Process):
    """A server that has printed its ready line."""

    endpoints: str
    ready_s: float
    remoting_address: str = ""


@contextmanager
def broker(
    data_dir: Path | None = None, topics: Topics | None = None, *flags: str, remoting: str | None = None
) -> Iterator[Server]:
    """Yields a broker that runs until the block ends. ``remoting`` is where it listens for that protocol, if at all."""
    with BrokerProcess(topics, data_dir=data_dir, arguments=flags, remoting=remoting) as process:
        yield Server(process.pid, process.endpoints, process.ready_s, "".join(process.remoting_addresses))


@contextmanager
def peer_server(module: str) -> Iterator[Server]:
    """Yields a peer of the broker until the block ends: a program that prints the same ready line."""
    with BrokerProcess(command=[sys.executable, "-m", module]) as process:
        yield Server(process.pid, process.endpoints, process.ready_s)
