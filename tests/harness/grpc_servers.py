"""Servers of `apache.rocketmq.v2`, Apache's gRPC clients of all languages, and a place for each scenario."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from processes.apache.administration import Administration
from processes.apache.cluster import make_proxied_cluster
from processes.apache.releases import Release
from processes.children import ProcessFailed
from processes.grpc_clients.lacks import Language
from rmqpull_broker.testing import BrokerProcess
from tests.clients.programs.grpc.clients import (
    LANGUAGES,
    ClientRefused,
    GrpcClient,
    GrpcClients,
    Kind,
    Received,
)
from tests.harness.client_servers import ServerKind
from tests.harness.waiting import WAIT_S, wait_until

TopicType = Literal["NORMAL", "FIFO", "DELAY", "TRANSACTION"]
AWAIT_MS = 5_000
"""How long a receive waits here: the shortest time that a proxy allows."""
INVISIBLE_MS = 10_000
"""How long a message stays with its consumer here: the shortest time that a proxy allows."""
# Both servers check transactions after a second, and not after half a minute.
_PROPERTIES = {"transactionTimeOut": "1000", "transactionCheckInterval": "1000"}


@dataclass(frozen=True)
class GrpcServer:
    """A server of one broker, `broker-a`. Topics and groups are created over the remoting protocol on both kinds."""

    endpoints: str
    """``host:port``: the only thing that clients are told."""
    tls_endpoints: str
    """The same for clients that speak TLS. A real proxy serves them on the same port."""
    administration: Administration
    restart: Callable[[], None]
    """Kills the broker and starts it again. The emulator is its own proxy, and a real proxy runs on."""
    restart_proxy: Callable[[], None]
    """Kills what clients are connected to, and starts it again."""

    @property
    def restarts_proxy(self) -> bool:
        """Whether the broker is its own proxy."""
        return self.restart == self.restart_proxy

    def create_topic(self, topic: str, queues: int, topic_type: TopicType) -> None:
        """Creates a topic of a type."""
        self.administration.create_topic(topic, queues, attributes={"message.type": topic_type})


class GrpcServers:
    """The servers and clients that the scenarios of a test process share. Each is started when it is needed first."""

    def __init__(self, folder: Path, choose_release: Callable[[], Release]) -> None:
        self._folder = folder
        self._choose_release = choose_release
        self._started = ExitStack()
        self._servers: dict[ServerKind, GrpcServer] = {}
        self._clients: dict[Language, GrpcClients] = {}

    def find_server(self, kind: ServerKind) -> GrpcServer:
        """Returns the server of a kind."""
        if kind not in self._servers:
            run = _run_emulator() if kind == "emulator" else self._run_apache()
            self._servers[kind] = self._started.enter_context(run)
        return self._servers[kind]

    @contextmanager
    def run_server_to_restart(self, kind: ServerKind) -> Iterator[GrpcServer]:
        """Runs a server of its own for a scenario that restarts its broker."""
        with _run_emulator(self._new_folder()) if kind == "emulator" else self._run_apache() as server:
            yield server

    def find_clients(self, language: Language) -> GrpcClients:
        """Returns the process that has the clients of a language. Raises SoftwareMissing."""
        if language not in self._clients:
            self._clients[language] = self.start_clients(language)
        return self._clients[language]

    def start_clients(self, language: Language) -> GrpcClients:
        """Starts a process that a scenario may kill. Raises SoftwareMissing."""
        return self._started.enter_context(GrpcClients(LANGUAGES[language](self._new_folder())))

    def close(self) -> None:
        """Ends all servers and clients."""
        self._started.close()

    def _new_folder(self) -> Path:
        folder = self._folder / uuid.uuid4().hex[:8]
        folder.mkdir(parents=True)
        return folder

    @contextmanager
    def _run_apache(self) -> Iterator[GrpcServer]:
        release = self._choose_release()
        with make_proxied_cluster(self._new_folder(), release=release, properties=_PROPERTIES) as cluster:
            restart = cluster.find_broker("broker-a").restart
            yield GrpcServer(
                cluster.proxy.address,
                cluster.proxy.address,
                cluster.administration,
                restart,
                cluster.proxy.restart,
            )


class GrpcPlace:
    """Topics and groups of one scenario, on one server, and its clients in one language."""

    def __init__(self, servers: GrpcServers, language: Language, kind: ServerKind) -> None:
        self.clients = servers.find_clients(language)
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        self.language: Language = language
        self._servers = servers
        self._kind: ServerKind = kind
        self._own: GrpcServer | None = None
        self._ends = ExitStack()

    @property
    def server(self) -> GrpcServer:
        """The server that scenarios share, or the one of this scenario."""
        return self._own or self._servers.find_server(self._kind)

    def use_own_server(self) -> GrpcServer:
        """Starts a server for this scenario alone, which it may restart."""
        self._own = self._ends.enter_context(self._servers.run_server_to_restart(self._kind))
        return self._own

    def create_topic(self, topic_type: TopicType = "NORMAL", queues: int = 4) -> str:
        """Creates a topic with a name of its own. Returns the name."""
        topic = f"topic-{uuid.uuid4().hex[:8]}"
        self.server.create_topic(topic, queues, topic_type)
        return topic

    def create_group(self, **config: Any) -> None:
        """Creates the group of this place, with settings by RocketMQ's names."""
        self.server.administration.create_group(self.group, **config)

    # ---- clients

    def start(self, kind: Kind, process: GrpcClients | None = None, **options: Any) -> GrpcClient:
        """Starts a client. It ends with the scenario. ``process`` has it instead of the one that scenarios share."""
        endpoints = self.server.tls_endpoints if options.get("tls") else self.server.endpoints
        client = (process or self.clients).start(kind, endpoints, **options)
        self._ends.callback(_shut_down, client)
        return client

    def start_clients(self) -> GrpcClients:
        """Starts a process of the same language that the scenario may kill."""
        return self._servers.start_clients(self.language)

    def start_producer(self, topic: str, **options: Any) -> GrpcClient:
        """Starts a producer of a topic."""
        return self.start("producer", topics=[topic], **options)

    def start_simple(self, topic: str, expression: str = "*", **options: Any) -> GrpcClient:
        """Starts a simple consumer of this place's group."""
        return self.start(
            "simple", **{"group": self.group, "awaitMs": AWAIT_MS, "subscriptions": {topic: expression}, **options}
        )

    def start_push(self, topic: str, expression: str = "*", **options: Any) -> GrpcClient:
        """Starts a push consumer of this place's group."""
        return self.start("push", **{"group": self.group, "subscriptions": {topic: expression}, **options})

    def close(self) -> None:
        """Ends the clients of the scenario."""
        self._ends.close()


def send(producer: GrpcClient, topic: str, *bodies: str, **fields: Any) -> list[str]:
    """Sends messages one after the other. Returns their ids. ``fields`` are those of the call `send`."""
    return [producer.call("send", topic=topic, body=body, **fields)["messageId"] for body in bodies]


def send_while_possible(producer: GrpcClient, topic: str, count: int) -> set[str]:
    """Sends until this many messages were acknowledged. Returns their ids."""
    sent: set[str] = set()

    def is_done() -> bool:
        try:
            sent.update(send(producer, topic, f"{len(sent)}"))
        except ClientRefused:
            return False
        return len(sent) >= count

    wait_until(is_done, f"{count} messages sent", wait_s=120)
    return sent


def receive_all(consumer: GrpcClient, count: int, *, acknowledge: bool = True, **limits: int) -> list[Received]:
    """Receives with a simple consumer until it has this many messages. Each is acknowledged at once, if wanted."""
    return _receive_while(
        consumer, lambda found: len(found) < count, f"{count} messages", acknowledge=acknowledge, **limits
    )


def receive_until(consumer: GrpcClient, body: str) -> list[Received]:
    """Receives and acknowledges until a message has this body: what a topic of one queue has up to there."""
    return _receive_while(consumer, lambda found: body not in bodies_of(found), f"the message {body}")


def _receive_while(
    consumer: GrpcClient,
    wants_more: Callable[[list[Received]], bool],
    what: str,
    *,
    acknowledge: bool = True,
    **limits: int,
) -> list[Received]:
    found: list[Received] = []

    def receive() -> bool:
        received = consumer.receive(**limits)
        for message in received if acknowledge else ():
            consumer.call("ack", handle=message.handle)
        found.extend(received)
        return not wants_more(found)

    try:
        wait_until(receive, f"{what} received")
    except AssertionError as failed:
        raise AssertionError(f"{failed}, only {bodies_of(found)}") from None
    return found


def wait_for_consumed(consumers: Iterable[GrpcClient], count: int, wait_s: float = 60.0) -> list[Received]:
    """Returns what push consumers have consumed, when they have consumed this many messages."""
    members = list(consumers)

    def find() -> list[Received]:
        return [message for one in members for message in one.consumed]

    try:
        wait_until(lambda: sum(one.consumed_count for one in members) >= count, f"{count} messages consumed", wait_s)
    except AssertionError as failed:
        raise AssertionError(f"{failed}, only {len(find())}: {bodies_of(find())[:20]}") from None
    return find()


def bodies_of(messages: Iterable[Received]) -> list[str]:
    """Returns the sorted bodies of messages: queues have no common order."""
    return sorted(message.body for message in messages)


def has_messages(place: GrpcPlace, topic: str, count: int = 1) -> bool:
    """Whether a topic exists and has this many messages. A topic of dead letters exists after the first one."""
    administration = place.server.administration
    return bool(administration.find_route(topic)) and administration.count_messages(topic) >= count


@contextmanager
def busy(producer: GrpcClient, topic: str) -> Iterator[None]:
    """Sends a message with the body `nudge` each half second during the block.

    A redelivered message wakes no waiting receive, on 5.3.3 as here: it comes with the next receive, which may be 20 s
    later. On a topic with traffic it comes sooner.
    """
    ended = False

    def nudge() -> None:
        while not ended:
            with suppress(ClientRefused):
                producer.call("send", topic=topic, body=NUDGE)
            time.sleep(0.5)

    with ThreadPoolExecutor(1) as thread:
        nudging = thread.submit(nudge)
        try:
            yield
        finally:
            ended = True
        nudging.result(WAIT_S)


NUDGE = "nudge"


def _shut_down(client: GrpcClient) -> None:
    with suppress(ProcessFailed, BrokenPipeError):  # the scenario may have killed its process
        client.shut_down(in_background=True)


@contextmanager
def _run_emulator(data_dir: Path | None = None) -> Iterator[GrpcServer]:
    """Runs the emulator as a process: the many answers of clients, which this process reads, do not delay it.

    Without a folder for its data it keeps messages in memory, and a restart loses them.
    """
    arguments = [part for name, value in _PROPERTIES.items() for part in ("--property", f"{name}={value}")]
    arguments += ["--tls-listen", "127.0.0.1:0"]
    with BrokerProcess(data_dir=data_dir, remoting="127.0.0.1:0", arguments=arguments) as broker:
        assert broker.tls_endpoints is not None
        administration = Administration(broker.remoting_addresses[0])
        yield GrpcServer(
            broker.endpoints,
            broker.tls_endpoints,
            administration,
            broker.restart,
            broker.restart,
        )
