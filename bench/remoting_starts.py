"""How long it takes until a Java consumer has its first message, when neither a server nor a JVM runs yet."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from bench.comparison import OURS, Comparison, Contender, measure_all
from bench.java_load import first_message_s
from bench.remoting_servers import APACHE, SYNC, RemotingServer, apache_servers, emulator
from bench.results import Aim

FIRST, AGAIN = "first", "again"
SECONDS_MAX = 1.5
"""The aim for the emulator, beyond Java's own start."""


class _Start(Protocol):
    def __call__(
        self, folder: Path, topics: Sequence[str], queues: int, flush: str
    ) -> AbstractContextManager[RemotingServer]: ...


def starts(runs: int) -> list[Comparison]:
    """Measures the time from the command that starts the server until a consumer has the first message.

    The same program then runs again on the running server: that is Java's own start.
    """
    whole = Comparison("remoting-start", "start until a consumer has a message", "s")
    own = Comparison("remoting-start-java", "the same on a running server: Java's own start", "s")
    beyond = Comparison("remoting-start-beyond", "start beyond Java's own", "s", {OURS: Aim(at_most=SECONDS_MAX)})

    def measure(name: str, start: _Start) -> float:
        with tempfile.TemporaryDirectory(prefix="rmqpull-bench-", ignore_cleanup_errors=True) as kept:
            folder = Path(kept)
            with start(folder, (FIRST, AGAIN), 4, SYNC) as server:
                whole_s = server.ready_s + first_message_s(server.name_server, FIRST, folder)
                own_s = first_message_s(server.name_server, AGAIN, folder)
        own.add(name, own_s)
        beyond.add(name, whole_s - own_s)
        return whole_s

    contenders = [
        Contender(OURS, lambda: measure(OURS, emulator), [whole]),
        Contender(APACHE, lambda: measure(APACHE, apache_servers), [whole]),
    ]
    measure_all(contenders, runs, warm_ups=0, alternates=True)
    return [whole, own, beyond]
