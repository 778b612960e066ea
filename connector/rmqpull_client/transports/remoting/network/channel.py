"""The calls that a process makes to one cluster: to its name servers, and through routes to its brokers."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from rmqpull_client.connection import Connection, unwrap_name, wrap_name
from rmqpull_client.errors import (
    BrokerBusy,
    BrokerFailed,
    BrokerUnavailable,
    HandshakeFailed,
    OptionError,
    RmqpullError,
    TopicNotFound,
)
from rmqpull_client.transports.remoting.network.cluster import (
    NAME_SERVER,
    BrokerNotListed,
    ClusterView,
    KnownRoute,
    Place,
    Target,
    is_system_topic,
)
from rmqpull_client.transports.remoting.network.connections import BrokerConnection, Cause, ConnectionLost
from rmqpull_client.transports.remoting.network.exchange import SUCCESS, Call, Exchange, NotLocatedYet
from rmqpull_client.transports.remoting.network.failures import join_names, make_bad_body_error, make_unlisted_error
from rmqpull_client.transports.remoting.network.pool import ConnectionPool
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand, WireError, encode_command
from rmqpull_proto.remoting.routes import ClusterInfo, TopicList, TopicRoute
from rmqpull_proto.remoting.signing import sign_fields

_REFRESH_MOST_S = 3.0
"""How long a new route is waited for while an old one is known: Java's mqClientApiTimeout (rules 1.1)."""
_LOOK_S = 0.2
_NAMES = frozenset(("topic", "consumerGroup", "producerGroup", "group"))
_SHORT_NAMES = {RequestCode.SEND_MESSAGE_V2: "ab", RequestCode.SEND_BATCH_MESSAGE: "ab"}
_ANY_CODE = range(-(1 << 31), 1 << 31)
_FOUND_OR_NOT = frozenset((int(ResponseCode.SUCCESS), int(ResponseCode.TOPIC_NOT_EXIST)))
_T = TypeVar("_T")
_logger = logging.getLogger(__name__)


class RemotingChannel:
    """Calls to the cluster of one connection. Threads may share it; each call has connections of its own.

    Calls raise BrokerUnavailable if no server responds in time, HandshakeFailed if a server speaks no TLS or another
    protocol, OptionError if a certificate or key file cannot be used, and RequestRefused.
    """

    def __init__(self, connection: Connection, clock: Callable[[], float] = time.monotonic) -> None:
        self.connection = connection
        self._clock = clock  # for the age of routes
        self.cluster = ClusterView(connection)
        self._pool = ConnectionPool(connection.tls)
        self._has_checked_given = not connection.broker_addresses

    @property
    def endpoints(self) -> str:
        """The name servers and the namespace, for error messages."""
        return self.connection.endpoints_and_namespace

    def close(self) -> None:
        """Closes the idle connections. The next call opens new ones."""
        self._pool.close()

    # --- calls --------------------------------------------------------------------------------------------------------

    def call(
        self,
        target: Target,
        command: RemotingCommand,
        *,
        accepted: Collection[int] = SUCCESS,
        may_repeat: bool = True,
        extra_ms: int = 0,
    ) -> RemotingCommand:
        """Sends one request and returns its response: see :meth:`Exchange.start`."""
        with Exchange(self) as exchange:
            call = exchange.start(target, command, accepted=accepted, may_repeat=may_repeat, extra_ms=extra_ms)
            return exchange.wait([call])[0]

    def call_all(
        self, requests: Iterable[tuple[Target, RemotingCommand]], *, accepted: Collection[int] = SUCCESS
    ) -> list[RemotingCommand]:
        """Sends requests at the same time, and returns their responses in order. They must be repeatable."""
        requests = list(requests)
        deadline_s = time.monotonic() + self.connection.request_timeout_ms / 1000
        with Exchange(self) as exchange:
            calls = [
                exchange.start(target, command, accepted=accepted, deadline_s=deadline_s)
                for target, command in requests
            ]
            self._refresh((target.topic for target, _ in requests if target != NAME_SERVER), deadline_s)
            return exchange.wait(calls)

    # --- topics -------------------------------------------------------------------------------------------------------

    def get_route(self, topic: str) -> KnownRoute:
        """Returns the route of a topic. Raises TopicNotFound."""
        routes = self.get_routes([topic])
        if topic not in routes:
            raise self._make_no_topic_error(topic)
        return routes[topic]

    def get_routes(self, topics: Sequence[str]) -> dict[str, KnownRoute]:
        """Returns the routes of topics. Topics that do not exist are left out.

        Routes are asked for again when they are older than the connection's poll interval. A name server drops a broker
        as soon as it disconnects; so a topic or a broker that was known before counts as gone only if the broker says
        so. Raises OptionError for a static topic.
        """
        self._refresh(topics)
        self._drop_deleted(topics)
        self._check_given()
        found: dict[str, KnownRoute] = {}
        for topic in topics:
            known = self.cluster.get_known(self._wrap(topic))
            if known is not None:
                if known.route.is_static:
                    raise OptionError(
                        f"Topic {topic} is a static topic: its queues may move between brokers, which is not "
                        "supported. Use another topic."
                    )
                found[topic] = known
        return found

    def list_topics(self) -> list[str]:
        """Returns the topics in the connection's namespace, except RocketMQ's own (rules 3.9.2, 4.4).

        A name server that has just started lists a topic when its brokers have registered again. So topics that are
        known stay until a broker says that it does not have them, and a name server without brokers is asked again.
        Raises OptionError if the name server does not list topics.
        """
        deadline_s = time.monotonic() + self.connection.request_timeout_ms / 1000
        listed, own, has_brokers = self._ask_topics()
        known = set(self.cluster.list_known())
        while not (has_brokers or listed or known) and time.monotonic() < deadline_s:
            time.sleep(_LOOK_S)
            listed, own, has_brokers = self._ask_topics()
        for name in known.difference(listed):
            self.cluster.suspect(name)
        names = (name for name in known.union(listed) if not is_system_topic(name, own))
        inner = (unwrap_name(self.connection.namespace, name) for name in names)
        return sorted(name for name in inner if name is not None)

    def _ask_topics(self) -> tuple[Sequence[str], set[str], bool]:
        """Asks a name server, and the next one the next time if this one lacks brokers.

        Returns all topics, the names of clusters and brokers, and whether there are brokers, as far as it is told.
        """
        with Exchange(self) as exchange:
            listing = RemotingCommand(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
            topics = exchange.start(NAME_SERVER, listing)
            describing = RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO)
            brokers = exchange.start(NAME_SERVER, describing, accepted=_ANY_CODE)
            try:
                exchange.wait([topics, brokers])
            except BrokerFailed as error:
                raise make_unlisted_error(self.endpoints, error) from None
        names = _decode(topics, TopicList.decode).topics
        if brokers.get_response().code != ResponseCode.SUCCESS:  # not every compatible name server tells it
            return names, set(), True
        info = _decode(brokers, ClusterInfo.decode)
        if not info.brokers and brokers.place is not None:
            self.cluster.leave_name_server(brokers.place.address)
        return names, {*info.brokers, *info.clusters}, bool(info.brokers)

    def list_brokers(self, limit_s: float | None = None) -> Collection[str]:
        """Lists the brokers that are registered. With ``limit_s``, each name server is asked once, within it."""
        deadline_s = None if limit_s is None else time.monotonic() + limit_s
        with Exchange(self) as exchange:
            command = RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO)
            call = exchange.start(NAME_SERVER, command, deadline_s=deadline_s, is_tried_once=limit_s is not None)
            exchange.wait([call])
            return _decode(call, ClusterInfo.decode).brokers

    def _check_given(self) -> None:
        """Warns, once, of names in ``brokerAddresses`` that no broker has. Such a broker may still join."""
        if self._has_checked_given or not self.cluster.list_known():
            return
        self._has_checked_given = True
        if not (unnamed := self.cluster.list_unnamed()):
            return
        try:
            brokers = self.list_brokers(min(_REFRESH_MOST_S, self.connection.request_timeout_ms / 2000))
        except RmqpullError as error:  # not every compatible name server tells it
            _logger.info("The names in option brokerAddresses cannot be checked: %s", error)
            return
        if unknown := [name for name in unnamed if name not in brokers]:
            _logger.warning(
                "Option brokerAddresses names %s, which the cluster at %s does not have now. Its brokers are %s. If "
                "one of these is meant, correct the name.",
                join_names(unknown),
                self.endpoints,
                join_names(sorted(brokers)),
            )

    def has_broker(self, topic: str, broker_name: str) -> bool:
        """Whether the route of a topic names a broker. Asks a name server now, also if the known route is fresh."""
        name = self._wrap(topic)
        self._ask_routes([name], None)
        known = self.cluster.get_known(name)
        return known is not None and bool(known.get_addresses(broker_name))

    def _refresh(self, topics: Iterable[str], deadline_s: float | None = None) -> None:
        """Asks for the routes that are not fresh, all at the same time.

        If no name server responds, known routes are used for another interval.
        """
        now_s = self._clock()
        names = [name for name in dict.fromkeys(map(self._wrap, topics)) if not self.cluster.is_fresh(name, now_s)]
        if known := [name for name in names if self.cluster.get_known(name) is not None]:
            limit_s = min(_REFRESH_MOST_S, self.connection.request_timeout_ms / 2000)
            try:
                until_s = min(time.monotonic() + limit_s, deadline_s or math.inf)
                self._ask_routes(known, until_s, is_tried_once=True)
            except (BrokerUnavailable, BrokerBusy, HandshakeFailed) as error:
                _logger.warning("The known routes are used on, because new ones cannot be asked for: %s", error)
                for name in known:
                    self.cluster.keep(name, self._clock())
        if unknown := [name for name in names if name not in known]:
            self._ask_routes(unknown, deadline_s)

    def _ask_routes(self, names: Sequence[str], deadline_s: float | None, is_tried_once: bool = False) -> None:
        """Asks for routes. If a name server lacks a topic, the others are asked too: it may have just started."""
        missing = names
        for _ in self.cluster.list_name_servers():
            if not missing:
                return
            missing = self._ask_one_for_routes(missing, deadline_s, is_tried_once)
        for name in missing:
            self.cluster.learn_missing(name, self._clock())

    def _ask_one_for_routes(self, names: Sequence[str], deadline_s: float | None, is_tried_once: bool) -> list[str]:
        """Asks a name server. Returns the topics that it does not have; the next one is asked next then."""
        missing: list[str] = []
        lacking: set[str] = set()
        with Exchange(self) as exchange:
            calls = [
                exchange.start(
                    NAME_SERVER,
                    RemotingCommand(
                        RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": name, "acceptStandardJsonOnly": "true"}
                    ),
                    accepted=_FOUND_OR_NOT,
                    deadline_s=deadline_s,
                    is_tried_once=is_tried_once,
                )
                for name in names
            ]
            for name, call, response in zip(names, calls, exchange.wait(calls), strict=True):
                if response.code == ResponseCode.TOPIC_NOT_EXIST:
                    missing.append(name)
                    lacking |= {call.place.address} if call.place is not None else set()
                else:
                    self.cluster.learn(name, _decode(call, TopicRoute.decode), self._clock())
        for address in lacking:
            self.cluster.leave_name_server(address)
        return missing

    def _drop_deleted(self, topics: Iterable[str]) -> None:
        """Asks brokers that the name server has dropped whether they still have the topic.

        Brokers that do not respond at once are kept.
        """
        with Exchange(self) as exchange:
            calls = [
                exchange.start(
                    Target(topic, broker_name, may_use_slave=True),
                    RemotingCommand(RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}),
                    accepted=_FOUND_OR_NOT,
                    deadline_s=time.monotonic() + min(_REFRESH_MOST_S, self.connection.request_timeout_ms / 2000),
                    is_tried_once=True,
                )
                for topic in topics
                for broker_name in self.cluster.list_absent(self._wrap(topic))
            ]
            for call in calls:
                try:
                    (response,) = exchange.wait([call])
                except RmqpullError:
                    continue
                if response.code == ResponseCode.TOPIC_NOT_EXIST:
                    self.cluster.drop_broker(self._wrap(call.target.topic), call.target.broker_name)

    # --- what an exchange asks for ------------------------------------------------------------------------------------

    def encode(self, command: RemotingCommand, opaque: int) -> bytes:
        """Returns the frame of a request, with its names in the namespace, and signed if there are credentials."""
        fields = self._wrap_fields(command)
        if (credentials := self.connection.credentials) is not None:
            fields = {**fields, **sign_fields(fields, command.body, credentials.access_key, credentials.secret_key)}
        return encode_command(replace(command, fields=fields, opaque=opaque))

    def _wrap_fields(self, command: RemotingCommand) -> Mapping[str, str]:
        if not self.connection.namespace:
            return command.fields
        names = _SHORT_NAMES.get(RequestCode(command.code), _NAMES)
        return {name: self._wrap(value) if name in names else value for name, value in command.fields.items()}

    def find_places(self, target: Target, deadline_s: float) -> list[Place]:
        """Returns where to send a request, the best place first. Asks for the route if it is not fresh.

        Raises NotLocatedYet, and RmqpullError.
        """
        if target == NAME_SERVER:
            return self.cluster.list_name_servers()
        self._refresh([target.topic], deadline_s)
        name = self._wrap(target.topic)
        if self.cluster.get_known(name) is None:
            raise NotLocatedYet(self._make_no_topic_error(target.topic))
        try:
            return self.cluster.find_places(name, target)
        except BrokerNotListed as error:
            self.cluster.suspect(name)
            raise NotLocatedYet(
                BrokerUnavailable(
                    f"The name server at {self.endpoints} does not know where to send requests for {target.topic}: "
                    f"{error}. Check that the broker is running and registered at the name server."
                )
            ) from None

    def borrow(self, place: Place, attempt: int = 0) -> BrokerConnection:
        """Returns a connection that nobody else uses: see :meth:`ConnectionPool.borrow`."""
        return self._pool.borrow(place.address, attempt)

    def give_back(self, connection: BrokerConnection) -> None:
        """Takes a connection back whose requests have all been responded to."""
        self._pool.give_back(connection)

    def note_lost(self, target: Target, place: Place, lost: ConnectionLost) -> None:
        """Learns that a server did not respond: another name server is asked next, or the route again."""
        if place.is_name_server:
            self.cluster.leave_name_server(place.address)
        else:
            self.cluster.suspect(self._wrap(target.topic))
        if lost.cause in (Cause.HANDSHAKE, Cause.CLOSED_IN_HANDSHAKE):
            self._pool.forget_files()

    def _wrap(self, name: str) -> str:
        return wrap_name(self.connection.namespace, name)

    def _make_no_topic_error(self, topic: str) -> TopicNotFound:
        return TopicNotFound(
            ResponseCode.TOPIC_NOT_EXIST.name,
            f"The name server at {self.endpoints} has no route for topic {topic}. Check the name, and create the topic "
            "if it is missing, for example with `mqadmin updateTopic`.",
        )


def _decode(call: Call, decode: Callable[[bytes | memoryview], _T]) -> _T:
    """Returns the body of the response to a call."""
    try:
        return decode(call.get_response().body)
    except WireError as error:
        assert call.place is not None
        raise make_bad_body_error(call.place, call.command, error) from None


# Spark forks its Python workers and reuses them, and processes must not share a connection. So the process id is part
# of the key.
_channels: dict[tuple[int, Connection], RemotingChannel] = {}


def get_remoting_channel(connection: Connection) -> RemotingChannel:
    """Returns this process's channel for ``connection``. It is created on first use. Raises OptionError."""
    key = (os.getpid(), connection)
    if key not in _channels:
        _channels[key] = RemotingChannel(connection)
    return _channels[key]
