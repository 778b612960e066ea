"""What a process knows of a cluster: its name servers, the routes of topics, and the addresses of brokers. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rmqpull_client.connection import MASTER_ID, Connection, parse_addresses, parse_broker_addresses
from rmqpull_client.errors import OptionError
from rmqpull_client.light_queues import is_light
from rmqpull_client.model import MessageQueue
from rmqpull_proto.names import REPLY_SUFFIX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from rmqpull_proto.remoting.routes import BrokerData, QueueData, TopicRoute

READ, WRITE = 4, 2
"""Bits of a permission (rules 3.9.1)."""
SUSPECT_AGAIN_S = 0.2
"""How long a route is used after it was requested, even if its broker cannot be reached."""
_CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"
"""For clients it is a system topic, but no broker has it from its start (rules 3.9.2)."""


class Target(NamedTuple):
    """The recipient of a request: a broker that has a topic, by the names in the connection's namespace.

    Without a topic it is a broker that name servers have listed.

    ``broker_id`` is 0 for the master. With ``may_use_slave`` the request goes to another broker of the same name when
    that one is away.
    """

    topic: str
    broker_name: str
    broker_id: int = MASTER_ID
    may_use_slave: bool = False

    @classmethod
    def of(cls, queue: MessageQueue, broker_id: int = MASTER_ID, may_use_slave: bool = False) -> Target:
        """Returns the target for requests about a queue."""
        return cls(queue.topic, queue.broker_name, broker_id, may_use_slave)

    @classmethod
    def of_broker(cls, broker_name: str) -> Target:
        """Returns the target for requests to the master of a broker, about no topic."""
        return cls("", broker_name)


NAME_SERVER = Target("", "", may_use_slave=True)
"""The target for requests to a name server, whichever responds."""


class Place(NamedTuple):
    """A server: its address, and for a broker its name and id. ``is_given``: ``brokerAddresses`` names the address.

    ``is_proxy``: the address is that of a proxy, which forwards requests to the broker. For a name server, it is also
    set while that is not known.
    """

    address: str
    broker_name: str = ""
    broker_id: int = MASTER_ID
    is_given: bool = False
    is_proxy: bool = False

    @property
    def is_name_server(self) -> bool:
        """Whether this is a name server."""
        return not self.broker_name

    @property
    def is_slave(self) -> bool:
        """Whether this is a broker that copies another one, its master."""
        return self.broker_id != MASTER_ID

    def __str__(self) -> str:
        if self.is_name_server:
            return f"name server {self.address}"
        if self.is_proxy:
            return f"proxy for broker {self.broker_name} at {self.address}"
        slave = f" (slave with id {self.broker_id})" if self.is_slave else ""
        return f"broker {self.broker_name}{slave} at {self.address}"


class BrokerNotListed(Exception):
    """The route of a topic lacks the broker, or its master or slave that is needed. The text says which."""


@dataclass(frozen=True)
class KnownRoute:
    """The route of a topic, as the name server states it.

    ``absent`` are brokers that an earlier route named. A name server drops a broker as soon as it disconnects, so they
    may come back.
    """

    route: TopicRoute
    absent: frozenset[str] = frozenset()
    asked_s: float = 0.0
    is_suspect: bool = False

    def list_readable(self, topic: str) -> list[MessageQueue]:
        """Returns the queues that can be read, also those of brokers that are absent while they restart (rules 1.3)."""
        return [
            MessageQueue(topic, data.broker_name, queue_id)
            for data in self.route.queue_datas
            if data.perm & READ
            for queue_id in _list_queue_ids(topic, data.read_queue_nums)
        ]

    def list_unreadable(self, topic: str) -> list[MessageQueue]:
        """Returns the queues that exist and that the permission of topic or broker does not let clients read."""
        return [
            MessageQueue(topic, data.broker_name, queue_id)
            for data in self.route.queue_datas
            if not data.perm & READ
            for queue_id in _list_queue_ids(topic, data.read_queue_nums)
        ]

    def list_writable(self, topic: str) -> list[MessageQueue]:
        """Returns the queues that can be written: those with a master; of absent brokers only if all are absent."""
        masters = {data.broker_name for data in self.route.broker_datas if MASTER_ID in data.broker_addrs}
        listed = masters - self.absent or masters
        return [
            MessageQueue(topic, data.broker_name, queue_id)
            for data in self.route.queue_datas
            if data.perm & WRITE and data.broker_name in listed
            for queue_id in range(data.write_queue_nums)
        ]

    def get_addresses(self, broker_name: str) -> dict[int, str]:
        """Returns the registered addresses of a broker by broker id."""
        return {
            broker_id: address
            for data in self.route.broker_datas
            if data.broker_name == broker_name
            for broker_id, address in data.broker_addrs.items()
        }


class ClusterView:
    """Name servers, routes and addresses. Topics have their names on the broker. Times are of a monotonic clock.

    Raises OptionError for bad addresses in the connection.
    """

    def __init__(self, connection: Connection) -> None:
        try:
            self._name_servers = parse_addresses(connection.name_servers)
        except ValueError as error:
            raise OptionError(
                f"The name servers of a connection (option nameServers) are {connection.name_servers!r}: {error} "
                "Expected HOST:PORT, such as 127.0.0.1:9876, or several of them separated by semicolons."
            ) from None
        try:
            self._given = parse_broker_addresses(connection.broker_addresses) if connection.broker_addresses else {}
        except ValueError as error:
            raise OptionError(
                f"The broker addresses of a connection (option brokerAddresses) are {connection.broker_addresses!r}: "
                f"{error} Expected addresses by broker name, such as broker-a=localhost:10911, or by name and id."
            ) from None
        self._interval_s = connection.poll_name_server_interval_ms / 1000
        self._known: dict[str, KnownRoute] = {}
        self._expected: dict[str, frozenset[str]] = {}
        self._brokers: Mapping[str, BrokerData] = {}
        self._queue_counts: dict[tuple[str, str], int] = {}  # the highest number seen or expected, by topic and broker
        self.is_proxied: bool | None = None
        """Whether the name servers are proxies, which serve routes that lead to themselves. None: not known yet."""

    # --- name servers -------------------------------------------------------------------------------------------------

    def list_name_servers(self) -> list[Place]:
        """Returns the name servers in turn, from the one that worked last."""
        return [Place(address, is_proxy=self.is_proxied is not False) for address in self._name_servers]

    def leave_name_server(self, address: str) -> None:
        """Notes that a name server did not respond: the next one becomes the first."""
        first, *others = self._name_servers
        if first == address:
            self._name_servers = (*others, first)

    # --- routes -------------------------------------------------------------------------------------------------------

    def get_known(self, topic: str) -> KnownRoute | None:
        """Returns the last known route of a topic, fresh or not."""
        return self._known.get(topic)

    def get_complete(self, topic: str) -> KnownRoute | None:
        """Returns the last known route; behind proxies, with all readable queues that any of them has reported.

        A proxy that was not asked for a while returns an old route, and the next connection may lead to such a proxy.
        Only its broker knows what a queue has, and whether it still exists.
        """
        known = self._known.get(topic)
        if known is None or not self.is_proxied:
            return known
        queues = tuple(
            replace(
                data,
                read_queue_nums=max(data.read_queue_nums, self._queue_counts.get((topic, data.broker_name), 0)),
            )
            for data in known.route.queue_datas
        )
        return replace(known, route=replace(known.route, queue_datas=queues))

    def get_listed(self, topic: str) -> TopicRoute | None:
        """Returns the known route without absent brokers, or None if the name server names no broker of the topic."""
        known = self._known.get(topic)
        if known is None:
            return None
        queues = tuple(data for data in known.route.queue_datas if data.broker_name not in known.absent)
        brokers = tuple(data for data in known.route.broker_datas if data.broker_name not in known.absent)
        return replace(known.route, queue_datas=queues, broker_datas=brokers) if queues else None

    def list_known(self) -> list[str]:
        """Returns the topics whose routes are known."""
        return list(self._known)

    def list_brokers(self) -> set[str]:
        """Returns the brokers that known routes name, absent ones included."""
        return {data.broker_name for known in list(self._known.values()) for data in known.route.broker_datas}

    def is_fresh(self, topic: str, now_s: float) -> bool:
        """Whether the known route of a topic is recent enough to use."""
        known = self._known.get(topic)
        if known is None:
            return False
        return now_s - known.asked_s < (
            min(SUSPECT_AGAIN_S, self._interval_s) if known.is_suspect else self._interval_s
        )

    def learn(self, topic: str, route: TopicRoute, now_s: float) -> KnownRoute:
        """Records a route from a name server. Brokers that are no longer in it become absent."""
        listed = {data.broker_name for data in route.queue_datas}
        for data in route.queue_datas:
            self._count_queues(topic, data.broker_name, data.read_queue_nums)
        known = self._known.get(topic)
        queues: list[QueueData] = list(route.queue_datas)
        brokers: list[BrokerData] = list(route.broker_datas)
        absent: set[str] = set()
        if known is not None:
            absent = {data.broker_name for data in known.route.queue_datas} - listed
            queues += (data for data in known.route.queue_datas if data.broker_name in absent)
            brokers += (data for data in known.route.broker_datas if data.broker_name in absent)
        merged = replace(route, queue_datas=tuple(queues), broker_datas=tuple(brokers))
        self._known[topic] = found = KnownRoute(merged, frozenset(absent), now_s)
        self.forget(topic, listed)
        return found

    def learn_missing(self, topic: str, now_s: float) -> KnownRoute | None:
        """Records that name servers do not have the topic. All of its known brokers become absent."""
        return self.learn(topic, TopicRoute(), now_s) if topic in self._known else None

    def keep(self, topic: str, now_s: float) -> None:
        """Uses the known route for another interval, because no name server responds."""
        if (known := self._known.get(topic)) is not None:
            self._known[topic] = replace(known, asked_s=now_s, is_suspect=False)

    def suspect(self, topic: str) -> None:
        """Notes that a broker of a topic cannot be reached: its route is requested again soon."""
        if (known := self._known.get(topic)) is not None:
            self._known[topic] = replace(known, is_suspect=True)

    def list_absent(self, topic: str) -> list[str]:
        """Returns the brokers of a topic that the name server no longer names."""
        known = self._known.get(topic)
        return [] if known is None else sorted(known.absent)

    def drop_broker(self, topic: str, broker_name: str) -> None:
        """Forgets a broker that has denied having the topic, and the route if no broker is left."""
        if (known := self._known.get(topic)) is None:
            return
        queues = tuple(data for data in known.route.queue_datas if data.broker_name != broker_name)
        brokers = tuple(data for data in known.route.broker_datas if data.broker_name != broker_name)
        if queues:
            route = replace(known.route, queue_datas=queues, broker_datas=brokers)
            self._known[topic] = replace(known, route=route, absent=known.absent - {broker_name})
        else:
            del self._known[topic]

    @property
    def expected(self) -> Mapping[str, frozenset[str]]:
        """The brokers that had queues of a topic before this process began, and that no route has named yet."""
        return self._expected

    def expect(self, topic: str, broker_name: str, queue_count: int = 0) -> None:
        """Notes that a broker had queues of a topic before this process began, and at least how many."""
        self._count_queues(topic, broker_name, queue_count)
        known = self._known.get(topic)
        if known is None or not any(data.broker_name == broker_name for data in known.route.queue_datas):
            self._expected[topic] = self._expected.get(topic, frozenset()) | {broker_name}

    def _count_queues(self, topic: str, broker_name: str, count: int) -> None:
        key = topic, broker_name
        self._queue_counts[key] = max(self._queue_counts.get(key, 0), count)

    def forget(self, topic: str, broker_names: Collection[str]) -> None:
        """Stops expecting brokers of a topic."""
        if left := self._expected.pop(topic, frozenset()).difference(broker_names):
            self._expected[topic] = left

    def list_unnamed(self) -> list[str]:
        """Returns the brokers that ``brokerAddresses`` names and no known route does."""
        return sorted({name for name, _ in self._given} - self.list_brokers())

    def note_brokers(self, brokers: Mapping[str, BrokerData]) -> None:
        """Records the brokers that name servers list."""
        self._brokers = brokers

    # --- addresses ----------------------------------------------------------------------------------------------------

    def find_places(self, topic: str, target: Target) -> list[Place]:
        """Returns where a request for a broker may go, the best place first. Raises BrokerNotListed.

        ``topic`` is the broker's name of the topic, whose route is known.
        """
        if target.topic:
            known = self._known.get(topic)
            registered: Mapping[int, str] = {} if known is None else known.get_addresses(target.broker_name)
        else:
            listed = self._brokers.get(target.broker_name)
            registered = {} if listed is None else listed.broker_addrs
        if not registered:
            listing = f"the route of topic {target.topic}" if target.topic else "the list of brokers"
            raise BrokerNotListed(f"{listing} does not name broker {target.broker_name}")
        wanted: Sequence[int] = [target.broker_id]
        if target.may_use_slave:
            wanted = [target.broker_id, *sorted(registered.keys() - {target.broker_id})]
        found = [self._make_place(target.broker_name, each, registered[each]) for each in wanted if each in registered]
        if not found:
            which = "master" if target.broker_id == MASTER_ID else f"slave with id {target.broker_id}"
            raise BrokerNotListed(f"broker {target.broker_name} has no {which} now")
        return found

    def _make_place(self, broker_name: str, broker_id: int, registered: str) -> Place:
        given = self._given.get((broker_name, broker_id))
        # A given address may lead to the proxy, which drops responses if too many are in flight. The limit only slows a
        # broker.
        return Place(given or registered, broker_name, broker_id, given is not None, bool(self.is_proxied))


def _list_queue_ids(topic: str, queue_count: int) -> range:
    """Returns the queues of a topic on a broker, by the route of the topic or of its parent topic.

    A light message queue has one queue on each broker of its parent topic.
    """
    return range(min(queue_count, 1) if is_light(topic) else queue_count)


def is_system_topic(name: str, clusters_and_brokers: Collection[str] = ()) -> bool:
    """Whether a topic, by its name on the broker, is RocketMQ's own (rules 3.9.2).

    Each cluster and each broker has a topic of its name, and each cluster one for replies.
    """
    return (
        name in SYSTEM_TOPICS
        or name == _CHECKPOINT_TOPIC
        or name.startswith(SYSTEM_TOPIC_PREFIX)
        or name in clusters_and_brokers
        or (name.endswith(REPLY_SUFFIX) and name.removesuffix(REPLY_SUFFIX) in clusters_and_brokers)
    )
