"""Starts servers of any kind for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from rmqpull_broker.testing import Topics, running_broker
from tests.harness.apache import StartApache
from tests.harness.apache_servers import ApacheServer, Clusters, start_proxy
from tests.harness.broker_processes import StartBroker
from tests.harness.server_kinds import COLUMNS, COLUMNS_ADMIN, OF_APACHE, PROXY, REMOTING, STANDARD
from tests.harness.servers import CrashingServer, EmbeddedServer, ManagedServer, ProcessServer, StartServer

GetClusters = Callable[[], Clusters]
ANY_PORT = "127.0.0.1:0"
_WITH_LISTS = {COLUMNS: COLUMNS_ADMIN, STANDARD: "admin", REMOTING: STANDARD}
"""The extensions of brokers that also list their topics. The remoting protocol needs none for that."""


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
            if kind in OF_APACHE:
                return get_clusters().start_server(topics, brokers, is_trimmed, is_proxied=kind == PROXY)
            extensions = _WITH_LISTS.get(kind, kind) if lists_topics or kind == REMOTING else kind
            clock: Literal["manual", "system"] = "manual" if moves_clock else "system"
            broker = running_broker(
                topics, brokers=brokers, extensions=extensions, clock=clock, remoting=kind == REMOTING
            )
            return EmbeddedServer(stack.enter_context(broker))

        yield start


def start_crashing_server(
    kind: str, topics: Topics, folder: Path, start_broker: StartBroker, get_start_apache: Callable[[], StartApache]
) -> CrashingServer:
    """Starts a server of its own for a test that kills it."""
    if kind in OF_APACHE:
        cluster = get_start_apache()()
        server = ApacheServer(cluster, proxy=start_proxy(cluster) if kind == PROXY else None)
        server.create_topics(topics)
        return server
    return start_process_server(kind, topics, start_broker, folder / "data")


def start_process_server(
    kind: str, topics: Topics, start_broker: StartBroker, data_dir: Path | None = None
) -> ProcessServer:
    """Starts a broker of this project as a process."""
    if kind == REMOTING:
        return ProcessServer(start_broker(topics, data_dir=data_dir, extensions=STANDARD, remoting=ANY_PORT))
    return ProcessServer(start_broker(topics, data_dir=data_dir, extensions=kind))
