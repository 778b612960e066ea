"""Starts servers of any kind for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from rmqpull_broker.testing import Topics, running_broker
from tests.harness.apache import StartApache
from tests.harness.apache_servers import ApacheServer, Clusters
from tests.harness.broker_processes import StartBroker
from tests.harness.server_kinds import APACHE, COLUMNS, COLUMNS_ADMIN, STANDARD
from tests.harness.servers import CrashingServer, EmbeddedServer, ManagedServer, ProcessServer, StartServer

GetClusters = Callable[[], Clusters]
_WITH_LISTS = {COLUMNS: COLUMNS_ADMIN, STANDARD: "admin"}
"""The extensions of brokers that also list their topics."""


@contextmanager
def run_servers(kind: str, get_clusters: GetClusters) -> Iterator[StartServer]:
    """Yields a function that starts servers of a kind. They end with the block.

    Those of Apache are parts of clusters that ``get_clusters`` returns.
    """
    with ExitStack() as stack:

        def start(
            topics: Topics,
            *,
            brokers: Sequence[str] = ("broker-a",),
            lists_topics: bool = False,
            is_trimmed: bool = False,
            moves_clock: bool = False,
        ) -> ManagedServer:
            if kind == APACHE:
                return get_clusters().start_server(topics, brokers, is_trimmed)
            extensions = _WITH_LISTS.get(kind, kind) if lists_topics else kind
            clock: Literal["manual", "system"] = "manual" if moves_clock else "system"
            broker = running_broker(topics, brokers=brokers, extensions=extensions, clock=clock)
            return EmbeddedServer(stack.enter_context(broker))

        yield start


def start_crashing_server(
    kind: str, topics: Topics, folder: Path, start_broker: StartBroker, get_start_apache: Callable[[], StartApache]
) -> CrashingServer:
    """Starts a server of its own for a test that kills it."""
    if kind == APACHE:
        server = ApacheServer(get_start_apache()())
        server.create_topics(topics)
        return server
    return ProcessServer(start_broker(topics, data_dir=folder / "data", extensions=kind))
