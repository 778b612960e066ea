"""Servers for the clients of others, JVMs with Apache's clients, and a place on a server for each scenario."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from processes.apache.administration import Administration
from processes.apache.cluster import make_cluster
from processes.apache.oracle import to_text
from processes.apache.releases import CLIENT_RELEASES, RELEASES, Release
from processes.children import ProcessFailed
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.testing import running_broker
from tests.clients.programs.go.clients import GoClients
from tests.clients.programs.java.many_clients import JavaClients, Kind, ManyClients, OneClient, Read
from tests.harness.waiting import wait_until

ServerKind = Literal["emulator", "apache"]
SERVERS: tuple[ServerKind, ...] = ("emulator", "apache")
BROKER = "broker-a"
_LEVELS = " ".join(["1s"] * 18)
_CHECK_MS = 1_000
# Both servers have the same settings: retries and checks of transactions take a second, and not ten or thirty.
_FOR_EMULATOR = BrokerProperties(
    message_delay_level=_LEVELS, transaction_time_out=_CHECK_MS, transaction_check_interval=_CHECK_MS
)
_FOR_APACHE = {
    "messageDelayLevel": _LEVELS,
    "transactionTimeOut": str(_CHECK_MS),
    "transactionCheckInterval": str(_CHECK_MS),
}


@dataclass(frozen=True)
class ClientServer:
    """A server of one broker, `broker-a`, and what scenarios do with it apart from their clients."""

    address: str
    """``host:port`` of the name server: the only thing that clients are told."""
    put_topic: Callable[[str, int], None]
    """Creates a topic, or changes its number of queues."""

    @property
    def administration(self) -> Administration:
        return Administration(self.address)


class ClientServers:
    """The servers and JVMs that the scenarios of a test process share. Each is started when it is needed first."""

    def __init__(self, folder: Path, release: Release) -> None:
        self._folder = folder
        self._release = release
        self._started = ExitStack()
        self._servers: dict[ServerKind, ClientServer] = {}
        self._jvms: dict[str, JavaClients] = {}
        self._go: GoClients | None = None
        self._producers: dict[tuple[ServerKind, str], OneClient] = {}

    def find_go(self) -> ManyClients:
        """Returns the process that has the clients in Go. Raises SoftwareMissing."""
        if self._go is None:
            self._go = self._started.enter_context(GoClients(self._folder / "go"))
        return self._go

    def find_server(self, kind: ServerKind) -> ClientServer:
        """Returns the server of a kind."""
        if kind not in self._servers:
            run = _run_emulator() if kind == "emulator" else _run_apache(self._folder / "apache", self._release)
            self._servers[kind] = self._started.enter_context(run)
        return self._servers[kind]

    def find_jvm(self, release: str) -> JavaClients:
        """Returns the JVM that has the clients of a release."""
        if release not in self._jvms:
            self._jvms[release] = self.start_jvm(release)
        return self._jvms[release]

    def start_jvm(self, release: str) -> JavaClients:
        """Starts a JVM that a test may kill."""
        folder = self._folder / f"clients-{release}-{uuid.uuid4().hex[:6]}"
        jvm: JavaClients = self._started.enter_context(JavaClients(RELEASES[release], folder))
        return jvm

    def find_producer(self, kind: ServerKind, release: str) -> OneClient:
        """Returns the producer that all scenarios of a server and a release share."""
        if (kind, release) not in self._producers:
            address = self.find_server(kind).address
            self._producers[kind, release] = self.find_jvm(release).start(
                "producer", f"producer-{kind}", address, "producers-of-tests"
            )
        return self._producers[kind, release]

    def close(self) -> None:
        """Ends all servers and JVMs."""
        self._started.close()


class Place:
    """Topics and groups of one scenario, on one server, and its clients of one release."""

    def __init__(self, servers: ClientServers, kind: ServerKind, release: str) -> None:
        self.server = servers.find_server(kind)
        self.release = release
        self.jvm = servers.find_jvm(release)
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        self._servers = servers
        self._kind: ServerKind = kind
        self._numbers = itertools.count()
        self._clients: list[OneClient] = []

    @property
    def administration(self) -> Administration:
        return self.server.administration

    def create_topic(self, queues: int = 1) -> str:
        """Creates a topic with a name of its own. Returns the name."""
        topic = f"topic-{uuid.uuid4().hex[:8]}"
        self.server.put_topic(topic, queues)
        return topic

    # ---- clients

    def start(
        self,
        kind: Kind,
        group: str | None = None,
        *,
        name: str | None = None,
        process: ManyClients | None = None,
        **options: Any,
    ) -> OneClient:
        """Starts a client, of the group of this place if none is named. Later clients have greater client ids.

        ``name`` is its instance name. ``process`` has it instead of the JVM of this place. It ends with the scenario.
        """
        name = name or f"{self.group}-{next(self._numbers)}"
        client = (process or self.jvm).start(kind, name, self.server.address, group or self.group, **options)
        self._clients.append(client)
        return client

    def start_jvm(self) -> JavaClients:
        """Starts a JVM that the scenario may kill, for clients of the same release."""
        return self._servers.start_jvm(self.release)

    def find_other_jvm(self) -> JavaClients:
        """Returns the JVM that has the clients of the other release."""
        return self._servers.find_jvm(next(name for name in CLIENT_RELEASES if name != self.release))

    def shut_down(self, client: OneClient) -> None:
        """Ends a client now."""
        self._clients.remove(client)
        client.shut_down()

    def close(self) -> None:
        """Ends the clients of the scenario."""
        while self._clients:
            with suppress(ProcessFailed, BrokenPipeError):  # the scenario may have killed its process
                self._clients.pop().shut_down(in_background=True)

    # ---- messages

    @property
    def producer(self) -> OneClient:
        """A producer that scenarios share."""
        return self._servers.find_producer(self._kind, self.release)

    def send(self, topic: str, *bodies: str, **fields: Any) -> list[dict[str, Any]]:
        """Sends messages one after the other. Returns the producer's results. ``fields`` are those of Produce.java."""
        return [self.producer.call("send", message=make_message(topic, body, **fields)) for body in bodies]

    def wait_for_messages(self, topic: str, count: int, queue: int = 0) -> None:
        """Returns when a queue shows this many messages: Apache's broker adds them a little after it has answered."""
        bounds = (0, count)
        wait_until(lambda: self.administration.query_bounds(topic, queue) == bounds, f"{count} messages in {topic}")

    def read(self, consumer: OneClient, count: int) -> list[Read]:
        """Returns what a push consumer has consumed, when it has consumed this many messages."""
        wait_until(lambda: len(consumer.consumed) >= count, f"{count} messages consumed by {consumer.name}")
        return list(consumer.consumed)

    def poll(self, consumer: OneClient, count: int) -> list[Read]:
        """Polls a lite pull consumer until it has given this many messages."""
        found: list[Read] = []

        def poll() -> bool:
            found.extend(map(Read, consumer.call("poll", timeoutMs=200)))
            return len(found) >= count

        try:
            wait_until(poll, f"{count} messages polled by {consumer.name}")
        except AssertionError as failed:
            raise AssertionError(f"{failed}, only {bodies_of(found)}") from None
        return found

    def read_topic(self, topic: str, count: int, queues: int = 1) -> list[Read]:
        """Reads the first messages of a topic, in a group that has no offsets."""
        assigned = [[topic, BROKER, queue] for queue in range(queues)]
        return self.poll(self.start("litePull", f"{self.group}-reader", queues=assigned), count)

    def wait_for_offset(self, consumer: OneClient, topic: str, offset: int, queue: int = 0) -> None:
        """Returns when a push consumer has stored this consumer offset on the broker."""

        def is_stored() -> bool:
            consumer.call("persist")  # its timer does so too, but begins late
            return self.administration.query_offset(self.group, topic, queue) == offset

        wait_until(is_stored, f"consumer offset {offset}")


def make_message(topic: str, body: str, **fields: Any) -> dict[str, Any]:
    """Returns a message in the form of Produce.java."""
    return {"topic": topic, "body": to_text(body.encode()), **fields}


def bodies_of(messages: Iterable[Read]) -> list[str]:
    """Returns the sorted bodies of messages: many threads consume, in no order."""
    return sorted(message.body for message in messages)


@contextmanager
def _run_emulator() -> Iterator[ClientServer]:
    with running_broker(remoting=True, properties=_FOR_EMULATOR) as broker:
        yield ClientServer(broker.remoting_addresses[0], broker.create_topic)


@contextmanager
def _run_apache(folder: Path, release: Release) -> Iterator[ClientServer]:
    with make_cluster(folder, release=release, properties=_FOR_APACHE) as cluster:
        yield ClientServer(cluster.addresses, cluster.administration.create_topic)
