"""Apache RocketMQ for the tests that run against every kind of server (``tests/harness/servers.py``).

They use the clusters of ``processes/apache`` and its administration, and nothing of the product's transport.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from processes.apache.administration import Administration
from processes.apache.cluster import ApacheCluster, make_cluster
from processes.apache.proxy import Proxy
from rmqpull_broker.core.model import Bounds, Message, MessageQueue, StoredMessage, TopicType
from rmqpull_broker.testing import RunningBroker, Topics
from rmqpull_client.connection import unwrap_name, wrap_name
from rmqpull_proto.remoting.json_dialect import read_json
from tests.harness.apache import StartApache
from tests.harness.apache_messages import HALF, PRODUCER_GROUP, Record, make_send_fields, read_records
from tests.harness.servers import ROUTES_TOLD_MS, HalfMessage, HeldPulls
from tests.harness.waiting import wait_until

BROKER = "broker-a"
READING_GROUP = "tests"
SMALL_LOG: Mapping[str, str] = {"mappedFileSizeCommitLog": str(64 << 10), "cleanResourceInterval": "100"}
"""The properties of a broker whose old messages a test deletes."""
CLEANS_WITHIN_S = 180.0
"""A broker deletes nothing in the first minute after its start."""
_BARE_KEY = re.compile(r"(?<=[{,])(\d+)(?=:)")
_SOCKETS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOG_FILE_BYTES = 64 << 10
_FILLER_BYTES = 20 << 10
_EXPIRED_S = 1_000 * 3_600
_PULL_MAX = 32
_TOPIC_NOT_EXIST = 17


class Clusters:
    """The clusters that the tests of a session share, and a proxy before each.

    A cluster is started when a test first asks for it, and a proxy when a test first asks for its cluster with one.
    """

    def __init__(self, start: StartApache) -> None:
        self._start = start
        self._clusters: dict[tuple[str, ...], ApacheCluster] = {}
        self._proxies: dict[int, Proxy] = {}
        self._namespaces = itertools.count()

    def start_shared_server(self, is_proxied: bool = False) -> ApacheServer:
        """Returns a server without a namespace: its users need topics and groups with names of their own."""
        cluster = self._start_cluster((BROKER,))
        return ApacheServer(cluster, proxy=self._start_proxy(cluster) if is_proxied else None)

    def start_server(
        self, topics: Topics, brokers: Sequence[str] = (BROKER,), is_trimmed: bool = False, is_proxied: bool = False
    ) -> ApacheServer:
        """Returns a part of a cluster that only one test uses: a namespace with topics on these brokers."""
        # A broker that only waits takes a twentieth of a core, so few clusters have two.
        cluster = self._start_cluster(tuple(brokers), SMALL_LOG if is_trimmed else MappingProxyType({}))
        proxy = self._start_proxy(cluster) if is_proxied else None
        namespace = f"test{next(self._namespaces)}"
        server = ApacheServer(cluster, namespace, brokers, has_small_log=is_trimmed, proxy=proxy)
        server.create_topics(topics)
        return server

    def _start_cluster(
        self, masters: tuple[str, ...], properties: Mapping[str, str] = MappingProxyType({})
    ) -> ApacheCluster:
        key = (*masters, *properties)
        if key not in self._clusters:
            self._clusters[key] = self._start(make_cluster, masters=masters, properties=properties)
        return self._clusters[key]

    def _start_proxy(self, cluster: ApacheCluster) -> Proxy:
        if id(cluster) not in self._proxies:
            self._proxies[id(cluster)] = start_proxy(cluster)
        return self._proxies[id(cluster)]


def start_proxy(cluster: ApacheCluster) -> Proxy:
    """Starts a proxy before a cluster. It asks for a route again after a second; by default, after 20."""
    return cluster.start_proxy(topicRouteServiceCacheRefreshSeconds=1)


class ApacheServer:
    """The topics and groups of one namespace in a cluster, on some of its brokers.

    With a proxy, source and sink reach it through that. What tests do and check goes to the brokers all the same.
    """

    def __init__(
        self,
        cluster: ApacheCluster,
        namespace: str = "",
        brokers: Sequence[str] = (BROKER,),
        has_small_log: bool = False,
        proxy: Proxy | None = None,
    ) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self._namespace = namespace
        self._brokers = tuple(brokers)
        self._has_small_log = has_small_log
        self._turns: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)

    @property
    def options(self) -> Mapping[str, str]:
        namespace = {"namespace": self._namespace} if self._namespace else {}
        address = self.proxy.remoting_address if self.proxy else self.cluster.addresses
        given = {"nameServers": address, "pollNameServerInterval": str(ROUTES_TOLD_MS)}
        return given | namespace

    @property
    def broker(self) -> RunningBroker:
        raise NotImplementedError("Apache's broker runs in another process")

    # ---- topics

    def create_topics(self, topics: Topics) -> None:
        for name, shape in topics.items():
            self.create_topic(name, *(shape if isinstance(shape, tuple) else (shape,)))

    def create_topic(self, name: str, queues: int = 1, topic_type: TopicType = TopicType.NORMAL) -> None:
        has_types = self.cluster.brokers[0].release.server.startswith("5.")
        attributes = {"message.type": topic_type.value} if has_types else None
        for broker in self._brokers:
            self._administration.create_topic(self._wrap(name), queues, broker, attributes=attributes)
        self._wait_for_proxy(name)

    def create_topic_without_writes(self, name: str) -> None:
        for broker in self._brokers:
            self._administration.create_topic(self._wrap(name), 1, broker, perm=4)
        self._wait_for_proxy(name)

    def _wait_for_proxy(self, name: str) -> None:
        """Returns when the proxy tells the queues of a topic that the name server tells."""
        if self.proxy is None:
            return
        wanted = _sort_queues(self._administration.find_route(self._wrap(name)))
        address, fields = self.proxy.remoting_address, {"topic": self._wrap(name)}

        def is_told() -> bool:
            response = self._administration.call(address, 105, fields, refusals_allowed=(_TOPIC_NOT_EXIST,))
            return not response.code and _sort_queues(read_json(response.body)) == wanted

        wait_until(is_told, "told by the proxy")

    def delete_topic(self, name: str) -> None:
        self._administration.delete_topic(self._wrap(name))
        self._turns.pop(name, None)

    # ---- messages

    def send(self, topic: str, *messages: Message | bytes) -> None:
        ends: dict[MessageQueue, int] = {}
        for message in messages:
            if self._has_small_log:
                self._start_log_file()
            queues = self._queues(topic)
            queue = queues[next(self._turns[topic]) % len(queues)]
            whole = Message(message, "") if isinstance(message, bytes) else message
            ends[queue] = self._send(queue, whole) + 1
        # The broker has stored the messages, and adds them to the queues a little later.
        wait_until(
            lambda: all(self.bounds(topic)[queue].max_offset >= end for queue, end in ends.items()), "added to queues"
        )

    def _send(self, queue: MessageQueue, message: Message, system_flag: int = 0) -> int:
        fields = make_send_fields(self._wrap(queue.topic), queue.queue_id, message, self.now_ms(), system_flag)
        return int(self._call(queue, 310, fields, message.body)["queueOffset"])

    def bounds(self, topic: str) -> dict[MessageQueue, Bounds]:
        def find(queue: MessageQueue) -> Bounds:
            return Bounds(*self._administration.query_bounds(self._wrap(topic), queue.queue_id, queue.broker_name))

        return {queue: find(queue) for queue in self._queues(topic)}

    def wait_until_readable(self) -> None:
        addresses = [self.cluster.find_broker(name).address for name in self._brokers]
        wait_until(lambda: not any(map(self._administration.is_behind, addresses)), "added to queues")

    def messages(self, topic: str) -> dict[MessageQueue, list[StoredMessage]]:
        return {
            queue: [record.row for record in self._read(queue, bounds)] for queue, bounds in self.bounds(topic).items()
        }

    def _read(self, queue: MessageQueue, bounds: Bounds) -> list[Record]:
        found: list[Record] = []
        offset, end = bounds
        while offset < end:
            fields = {
                "consumerGroup": READING_GROUP,
                "topic": self._wrap(queue.topic),
                "queueId": queue.queue_id,
                "queueOffset": offset,
                "maxMsgNums": _PULL_MAX,
                "sysFlag": 4,  # a subscription without a heartbeat
                "commitOffset": 0,
                "suspendTimeoutMillis": 0,
                "subscription": "*",
                "subVersion": 0,
            }
            response = self._administration.call(self._address(queue), 11, fields)
            found += read_records(response.body)
            offset = int(response.fields["nextBeginOffset"])
        return found

    def trim(self, topic: str, min_offset: int) -> None:
        """Makes the files of the commit log before a message look old, and lets the broker delete expired files.

        Each message is in a file of its own, because :meth:`send` starts one.
        """
        ((queue, bounds),) = self.bounds(topic).items()
        records = {record.row.queue_offset: record.log_position for record in self._read(queue, bounds)}
        first = records.get(min_offset, self._start_log_file())
        broker = self.cluster.find_broker(queue.broker_name)
        old_s = time.time() - _EXPIRED_S
        for file in sorted((broker.folder / "store" / "commitlog").iterdir()):
            if int(file.name) + _LOG_FILE_BYTES <= first:
                os.utime(file, (old_s, old_s))
        self._administration.call(broker.address, 329)
        is_deleted = f"deleted below offset {min_offset}"
        wait_until(lambda: self.bounds(topic)[queue].min_offset == min_offset, is_deleted, CLEANS_WITHIN_S)

    def _start_log_file(self) -> int:
        """Sends messages to another topic until the broker starts a new file. Returns where the file begins."""
        filler = MessageQueue("filler", self._brokers[0], 0)
        if not self._administration.find_route(self._wrap(filler.topic)):
            self.create_topic(filler.topic)
        files: set[int] = set()
        while len(files) < 2:
            fields = make_send_fields(self._wrap(filler.topic), 0, Message(b"", ""), 1)
            sent = self._call(filler, 310, fields, bytes(_FILLER_BYTES))
            files.add(int(sent["msgId"][-16:], 16) // _LOG_FILE_BYTES)  # the id ends with the log position
        return max(files) * _LOG_FILE_BYTES

    # ---- groups

    def consumer_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """See ``Server``. Asking for single offsets would not do: 4.x answers 0 for offsets that it does not have."""
        found: dict[MessageQueue, int] = {}
        for name in self._brokers:
            body = self._administration.call(self.cluster.find_broker(name).address, 43).body.decode()
            table = json.loads(_BARE_KEY.sub(r'"\1"', body)).get("offsetTable") or {}
            offsets = table.get(f"{self._wrap(topic)}@{self._wrap(group)}") or {}
            found |= {MessageQueue(topic, name, int(queue_id)): offset for queue_id, offset in offsets.items()}
        return dict(sorted(found.items()))

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def skip_time(self, ms: int) -> None:
        """Does nothing: the test waits."""

    def groups(self) -> set[str]:
        found: set[str] = set()
        for broker in self._brokers:
            body = self._administration.call(self.cluster.find_broker(broker).address, 201).body
            found |= json.loads(body)["subscriptionGroupTable"].keys()
        return {name for group in found if (name := unwrap_name(self._namespace, group)) is not None}

    def reset_to_the_begin(self, group: str, topic: str) -> None:
        self._administration.reset_offsets(self._wrap(group), self._wrap(topic), timestamp_ms=0)

    # ---- transactions

    def begin(self, topic: str, body: bytes) -> HalfMessage:
        (queue,) = self._queues(topic)
        message = Message(body, body.decode(), system_properties={"TRAN_MSG": "true", "PGROUP": PRODUCER_GROUP})
        sent = self._call(queue, 310, make_send_fields(self._wrap(topic), 0, message, self.now_ms(), HALF), body)
        ending = {
            "topic": self._wrap(topic),
            "producerGroup": PRODUCER_GROUP,
            "tranStateTableOffset": sent["queueOffset"],
            "commitLogOffset": str(int(sent["msgId"][-16:], 16)),
            "fromTransactionCheck": "false",
            "msgId": body.decode(),
            "transactionId": body.decode(),
        }
        return _Half(self, queue, ending)

    def end(self, queue: MessageQueue, ending: Mapping[str, str], is_committed: bool) -> None:
        """Commits or rolls back a half message."""
        before = self.bounds(queue.topic)[queue].max_offset
        self._call(queue, 37, {**ending, "commitOrRollback": 8 if is_committed else 12})
        if is_committed:
            wait_until(lambda: self.bounds(queue.topic)[queue].max_offset > before, "added to its queue")

    # ---- kills and pauses

    def hold_pulls(self) -> HeldPulls:
        if self.proxy is not None:
            # It sends heartbeats to its brokers: what waits at a broker may be one of them.
            return _Paused({int(self.proxy.remoting_address.rsplit(":", 1)[1]): self.proxy.pid})
        brokers = [self.cluster.find_broker(name) for name in self._brokers]
        return _Paused({broker.port: broker.pid for broker in brokers})

    def kill(self) -> None:
        for name in self._brokers:
            self.cluster.find_broker(name).kill()

    def start(self) -> None:
        for name in self._brokers:
            self.cluster.find_broker(name).start()

    def start_empty(self) -> None:
        for name in self._brokers:
            store = self.cluster.find_broker(name).folder / "store"
            for messages in ("commitlog", "consumequeue", "index"):
                shutil.rmtree(store / messages, ignore_errors=True)
            for name_of_file in ("checkpoint", "abort"):
                (store / name_of_file).unlink(missing_ok=True)
        self.start()

    # ---- calls

    @property
    def _administration(self) -> Administration:
        return self.cluster.administration

    def _wrap(self, name: str) -> str:
        return wrap_name(self._namespace, name)

    def _address(self, queue: MessageQueue) -> str:
        return self.cluster.find_broker(queue.broker_name).address

    def _call(self, queue: MessageQueue, code: int, fields: Mapping[str, object], body: bytes = b"") -> dict[str, str]:
        return self._administration.call(self._address(queue), code, fields, body).fields

    def _queues(self, topic: str) -> list[MessageQueue]:
        route = self._administration.find_route(self._wrap(topic)).get("queueDatas") or []
        return sorted(
            MessageQueue(topic, entry["brokerName"], queue_id)
            for entry in route
            for queue_id in range(entry["readQueueNums"])
        )


def _sort_queues(route: Mapping[str, Any]) -> list[tuple[object, ...]]:
    """Returns what a route says of each broker."""
    names = ("brokerName", "readQueueNums", "writeQueueNums", "perm")
    return sorted(tuple(entry[name] for name in names) for entry in route.get("queueDatas") or [])


@dataclass(frozen=True)
class _Half:
    server: ApacheServer
    queue: MessageQueue
    ending: Mapping[str, str]

    def commit(self) -> None:
        self.server.end(self.queue, self.ending, is_committed=True)

    def roll_back(self) -> None:
        self.server.end(self.queue, self.ending, is_committed=False)


class _Paused:
    """Servers, by port, whose processes are stopped (SIGSTOP). The kernel keeps what clients send."""

    def __init__(self, pids: Mapping[int, int]) -> None:
        self._pids = pids
        for pid in pids.values():
            os.kill(pid, signal.SIGSTOP)

    def are_waiting(self) -> bool:
        ports = {f"{port:04X}" for port in self._pids}
        rows = [line.split() for file in _SOCKETS if file.exists() for line in file.read_text().splitlines()[1:]]
        # The second column is the local address, the fifth the bytes in the queues to send and to receive. The end of a
        # connection counts as one byte.
        return any(row[1].rsplit(":", 1)[1] in ports and int(row[4].split(":")[1], 16) > 1 for row in rows)

    def release(self) -> None:
        for pid in self._pids.values():
            os.kill(pid, signal.SIGCONT)
