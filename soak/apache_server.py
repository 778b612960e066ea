"""Apache RocketMQ as the server of a round: two name servers, and one or two masters, or a SYNC_MASTER and its slave.

The query may reach masters through proxies. Producers and checks go to the brokers all the same.
The brokers have Apache's defaults, with ASYNC_FLUSH: what they have acknowledged survives their SIGKILL in the cache of
the operating system.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from processes.apache.administration import Administration
from processes.apache.cluster import make_cluster, make_replicated_cluster
from processes.apache.java_clients import JavaProducer
from processes.apache.oracle import JavaOracle, to_bytes
from processes.apache.releases import RELEASE_4, RELEASE_5, Release
from processes.apache.servers import Role, Server
from processes.children import Children
from rmqpull_proto.remoting.codes import RequestCode
from soak.apache_sending import ApacheSender
from soak.judge import Queue
from soak.ledger import digest_of
from soak.output import Row
from soak.plan import APACHE_4, Kind, Setting, Step
from soak.proxies import Proxies
from soak.servers import COPIED_QUEUES, GROUP, Copied, Repair, Workload, copy_topics

NAME_SERVERS = 2
QUEUES_MAX = 12
REGISTERED_WITHIN_S = 60.0
COPIED_WITHIN_S = 60.0
# A name server that was killed knows nothing until the brokers register again. This is the shortest period.
_PROPERTIES = {"registerNameServerPeriod": "10000"}
_PULL_MAX = 32
_SUBSCRIPTION_WITHOUT_HEARTBEAT = 4
_LOOK_S = 0.1

_Found = TypeVar("_Found")


class ApacheServer:
    """A cluster of Apache's servers. Calls raise CallRefused and OSError."""

    def __init__(self, folder: Path, setting: Setting, children: Children) -> None:
        self._release = choose_release(setting.server)
        self._folder = folder
        self._setting = setting
        self._children = children
        options: dict[str, Any] = {
            "release": self._release,
            "name_servers": NAME_SERVERS,
            "properties": _PROPERTIES,
        }
        if setting.has_slave:
            self._cluster = make_replicated_cluster(folder / "apache", **options)
        else:
            self._cluster = make_cluster(folder / "apache", masters=setting.brokers, **options)
        self._masters = [broker for broker in self._cluster.brokers if broker.role is not Role.SLAVE]
        self._queues: dict[str, int] = {}
        self._proxies: Proxies | None = None

    @property
    def options(self) -> Mapping[str, str]:
        return {"nameServers": self._cluster.addresses} if self._proxies is None else self._proxies.options

    @property
    def workloads(self) -> Sequence[Workload]:
        return self._sender.workloads

    def start(self) -> None:
        self._cluster.start()
        for server in (*self._cluster.name_servers, *self._cluster.brokers):
            self._children.adopt(server)
        if self._setting.is_proxied:
            self._proxies = Proxies(self._cluster, self._children)
        for topic, queues in self._setting.topics:
            self.add_topic(topic, queues)
        for topic in copy_topics(self._setting):
            self._put_topic(topic, COPIED_QUEUES, "FIFO")
        producer = JavaProducer(self._release, self._cluster.addresses, self._folder / "producer")
        self._children.adopt(producer)
        self._sender = ApacheSender(producer, self._list_queues)

    def disturb(self, step: Step) -> Repair:
        if step.kind is Kind.STALL_BROKER:
            pid = self._masters[step.server % len(self._masters)].pid
            os.kill(pid, signal.SIGSTOP)
            return lambda: os.kill(pid, signal.SIGCONT)
        if step.kind is Kind.KILL_MASTER_AND_QUERY:
            self._wait_until_copied()  # the query goes on from what it has seen of the master
        if step.kind is Kind.KILL_PROXY:
            self._wait_until_registered()  # it starts only with name servers that know brokers
        server = self._choose(step)
        server.kill()
        return lambda: self._children.start_broker(server)

    def _choose(self, step: Step) -> Server:
        if step.kind is Kind.KILL_NAME_SERVER:
            return self._cluster.name_servers[step.server % NAME_SERVERS]
        if step.kind is Kind.KILL_SLAVE:
            return self._cluster.find_broker(self._masters[0].name, 1)
        if step.kind is Kind.KILL_PROXY:
            assert self._proxies is not None
            return self._proxies[step.server]
        return self._masters[step.server % len(self._masters)]

    def heal(self) -> None:
        self._wait_until_registered()
        if self._proxies is not None:
            self._proxies.wait_until_told(self._queues)

    def add_queues(self, topic: str, count: int) -> None:
        self._put_topic(topic, min(self._queues[topic] + count, QUEUES_MAX))

    def add_topic(self, topic: str, queues: int) -> None:
        self._put_topic(topic, queues)

    def _put_topic(self, topic: str, queues: int, message_type: str = "NORMAL") -> None:
        self._wait_until_registered()
        # A topic without the attribute has type NORMAL. A slave of 5.3.3 forgets all topics when it copies one with
        # attributes from its master (apache/rocketmq issue 9403).
        has_type = self._release is not RELEASE_4 and message_type != "NORMAL"
        attributes = {"message.type": message_type} if has_type else None
        self._cluster.administration.create_topic(topic, queues, attributes=attributes)
        self._cluster.wait_for_slaves(topic)
        self._queues[topic] = queues

    def _wait_until_registered(self) -> None:
        """Returns when each name server knows all brokers."""
        expected = {broker.address for broker in self._cluster.brokers}
        deadline = time.monotonic() + REGISTERED_WITHIN_S
        for name_server in self._cluster.name_servers:
            administration = Administration(name_server.address)
            while {at for ids in administration.find_brokers().values() for at in ids.values()} != expected:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"Not all brokers were at {name_server.address} in {REGISTERED_WITHIN_S:.0f} s.")
                time.sleep(_LOOK_S)

    def _wait_until_copied(self) -> None:
        """Returns when the slave has all messages that its master has now."""
        slave = self._cluster.find_broker(self._masters[0].name, 1)
        ends = self.read_ends(self._queues)
        deadline = time.monotonic() + COPIED_WITHIN_S
        while any(self._read_end(slave, topic, queue) < end for (topic, _, queue), end in ends.items()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"The slave has not copied all messages within {COPIED_WITHIN_S:.0f} s.")
            time.sleep(_LOOK_S)

    def _read_end(self, broker: Server, topic: str, queue_id: int) -> int:
        fields = {"topic": topic, "queueId": queue_id}
        response = self._cluster.administration.call(broker.address, RequestCode.GET_MAX_OFFSET, fields)
        return int(response.fields["offset"])

    def _list_queues(self, topic: str) -> list[tuple[str, int]]:
        return [(broker.name, queue) for broker in self._masters for queue in range(self._queues[topic])]

    def read_ends(self, topics: Iterable[str]) -> dict[Queue, int]:
        return self._of_queues(topics, lambda *queue: self._cluster.administration.query_bounds(*queue)[1])

    def read_consumer_offsets(self, topics: Iterable[str]) -> dict[Queue, int]:
        def query(topic: str, queue_id: int, broker: str) -> int | None:
            return self._cluster.administration.query_offset(GROUP, topic, queue_id, broker)

        found = self._of_queues(topics, query)
        return {queue: offset for queue, offset in found.items() if offset is not None}

    def _of_queues(self, topics: Iterable[str], query: Callable[[str, int, str], _Found]) -> dict[Queue, _Found]:
        self._wait_until_registered()
        return {
            (topic, broker, queue_id): query(topic, queue_id, broker)
            for topic in topics
            for broker, queue_id in self._list_queues(topic)
        }

    def read_copies(self, topics: Collection[str]) -> list[Copied]:
        with JavaOracle(self._release) as oracle:
            return [
                _copied(topic, broker, message)
                for (topic, broker, queue_id), end in self.read_ends(sorted(topics)).items()
                for message in self._pull(oracle, topic, queue_id, broker, end)
            ]

    def _pull(self, oracle: JavaOracle, topic: str, queue_id: int, broker: str, end: int) -> Iterator[dict[str, Any]]:
        address = self._cluster.find_broker(broker).address
        offset = 0
        while offset < end:
            fields = {
                "consumerGroup": GROUP,
                "topic": topic,
                "queueId": queue_id,
                "queueOffset": offset,
                "maxMsgNums": _PULL_MAX,
                "sysFlag": _SUBSCRIPTION_WITHOUT_HEARTBEAT,
                "commitOffset": 0,
                "suspendTimeoutMillis": 0,
                "subscription": "*",
                "subVersion": 0,
            }
            response = self._cluster.administration.call(address, RequestCode.PULL_MESSAGE, fields)
            yield from oracle.decode_messages(response.body)
            offset = int(response.fields["nextBeginOffset"])

    def find_leftovers(self) -> list[str]:
        return []

    def close(self) -> None:
        self._sender.close()
        if self._proxies is not None:
            self._proxies.close()
        self._cluster.close()


def choose_release(server: str) -> Release:
    """Returns the release of a server of the command line."""
    return RELEASE_4 if server == APACHE_4 else RELEASE_5


def _copied(topic: str, broker: str, message: Mapping[str, Any]) -> Copied:
    said = message["properties"]
    row = Row(
        batch_id=0,
        file=f"{topic}/{broker}/{message['queueId']}",
        topic=said["topic"],
        broker_name=said["brokerName"],
        queue_id=int(said["queueId"]),
        offset=int(said["queueOffset"]),
        msg_id=said["msgId"],
        key=said["KEYS"],
        tag=said.get("TAGS", ""),
        digest=digest_of(to_bytes(message["body"])),
    )
    return Copied(row, said.get("rmqpullId", ""))
