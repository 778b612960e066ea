"""The routes of topics: when each is requested, and which stay in use while name servers or brokers are away."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from rmqpull_client.errors import (
    BrokerBusy,
    BrokerUnavailable,
    HandshakeFailed,
    OptionError,
    RmqpullError,
    TopicNotFound,
)
from rmqpull_client.light_queues import find_route_topic, is_light
from rmqpull_client.transports.remoting.network.calls import Call
from rmqpull_client.transports.remoting.network.cluster import NAME_SERVER, ClusterView, KnownRoute, Target
from rmqpull_client.transports.remoting.network.exchange import ANY_CODE, Exchange
from rmqpull_client.transports.remoting.network.failures import join_names
from rmqpull_client.transports.remoting.network.listings import REFRESH_MAX_S, Listings, decode_body, find_masters
from rmqpull_client.transports.remoting.network.looks import make_looks
from rmqpull_client.transports.remoting.network.servers import Servers
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.routes import TopicRoute

_FOUND_OR_NOT = frozenset((int(ResponseCode.SUCCESS), int(ResponseCode.TOPIC_NOT_EXIST)))
PROBES_MAX = 3
"""How often one look asks whether the name servers are proxies, if the servers that it asks go away."""
_logger = logging.getLogger(__name__)


class Routes:
    """The routes of one cluster. ``clock`` is for their age and for waits. Methods raise what calls of a channel do."""

    def __init__(
        self,
        servers: Servers,
        cluster: ClusterView,
        listings: Listings,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._servers = servers
        self._cluster = cluster
        self._listings = listings
        self._clock = clock
        self._sleep = sleep
        self._endpoints = servers.connection.endpoints_and_namespace
        self._is_without_name_server = False
        self._gone: frozenset[str] = frozenset()

    def get_route(self, topic: str) -> KnownRoute:
        """Returns the route of a topic. Raises TopicNotFound, and BrokerUnavailable if no broker is registered."""
        routes = self.get_routes([topic])
        if topic in routes:
            return routes[topic]
        if self._find_away([self._find_name(topic)]) is not None:
            raise BrokerUnavailable(
                f"No broker is registered at the name server at {self._endpoints}, so the route of topic {topic} is "
                "unknown. Check that the brokers are running, and that their namesrvAddr names this name server."
            )
        raise self.make_no_topic_error(topic)

    def get_routes(self, topics: Sequence[str]) -> dict[str, KnownRoute]:
        """Returns the routes of topics. Topics that do not exist are left out.

        Routes older than the connection's poll interval are requested again. A name server drops a broker as soon as it
        disconnects. So a known topic or broker counts as gone only if the broker says so, and an expected broker only
        when it has registered without the topic. Raises OptionError for a static topic.
        """
        self._wait_for_brokers(topics)
        self._drop_deleted(topics)
        self._listings.check_given()
        found: dict[str, KnownRoute] = {}
        for topic in topics:
            known = self._cluster.get_complete(self._find_name(topic))
            if known is not None:
                if known.route.is_static:
                    raise OptionError(
                        f"Topic {topic} is a static topic: its queues may move between brokers, which is not "
                        "supported. Use another topic."
                    )
                found[topic] = known
        return found

    def _wait_for_brokers(self, topics: Sequence[str]) -> None:
        """Requests routes until no broker is missing: name servers that have just started know none.

        Expected brokers that stay away are forgotten after the time limit, with a warning. Brokers that were awaited in
        vain are not awaited again until a route names them.
        """
        names = [self._find_name(topic) for topic in topics]
        away: set[str] = set()
        for _ in make_looks(
            self._servers.connection, lambda: self._describe_missing(names, away), self._clock, self._sleep
        ):
            self.refresh(topics)
            found = self._find_away(names) if topics else None
            if found is None:
                return
            away.clear()
            away.update(found)
        if self._list_expected(names):
            _logger.warning("Gave up waiting for %s. Their queues count as lost.", self._describe_missing(names, away))
        for name in names:
            self._cluster.forget(name, self._cluster.expected.get(name, ()))
        self._gone |= away

    def _find_away(self, names: Sequence[str]) -> set[str] | None:
        """Returns the known brokers that are not registered and may have one of the topics. None: no broker is missing.

        Expected brokers count as missing. For a topic without a route, so do all brokers that this process knows, or
        any broker if it knows none. Nobody waits if a name server does not list its brokers.
        """
        unknown = [name for name in names if self._cluster.get_known(name) is None]
        brokers_known = self._cluster.list_brokers()
        away = brokers_known - self._gone if unknown else set()
        if not self._list_expected(names) and not away and (brokers_known or not unknown):
            return None
        for brokers in self._listings.ask_each_for_brokers():
            if brokers is None:
                return self._wait_behind_proxy(names)
            self._forget_gone(names, find_masters(brokers))
            away -= brokers.keys()
            if brokers and not away and not self._list_expected(names):
                # A broker may have registered, with all of its topics, since their routes were requested.
                self._ask_routes(unknown, None)
                return None
        return away

    def _wait_behind_proxy(self, names: Sequence[str]) -> set[str] | None:
        """Returns an empty set to keep waiting for expected brokers behind a proxy, and None if there are none. A proxy
        cannot say whether a broker has left or is away, and its route may be old.
        """
        expected = self._list_expected(names) if self._cluster.is_proxied else {}
        for name in expected:
            self._cluster.suspect(name)
        return set() if expected else None

    def _forget_gone(self, names: Sequence[str], masters: Collection[str]) -> None:
        """Requests the routes of topics whose expected brokers have registered, and stops expecting those brokers.

        A broker registers with all of its topics at once. So a registered broker that the route does not name no longer
        has the topic. The route is requested last, because the broker may register in between.
        """
        registered = {name: brokers.intersection(masters) for name, brokers in self._list_expected(names).items()}
        if found := [name for name, brokers in registered.items() if brokers]:
            self._ask_routes(found, None)
        for name in found:
            self._cluster.forget(name, registered[name])

    def _list_expected(self, names: Sequence[str]) -> Mapping[str, frozenset[str]]:
        return {name: self._cluster.expected[name] for name in names if name in self._cluster.expected}

    def _describe_missing(self, names: Sequence[str], away: Collection[str]) -> str:
        expected = self._list_expected(names)
        if expected:
            brokers = sorted({broker for found in expected.values() for broker in found})
            missing = f"broker {join_names(brokers)} of topic {join_names(sorted(expected))},"
        elif away:
            unknown = sorted(name for name in names if self._cluster.get_known(name) is None)
            missing = f"broker {join_names(sorted(away))}, which may have topic {join_names(unknown)}, and"
        else:
            return self._listings.describe_none()
        return f"{missing} which the name server at {self._endpoints} does not have"

    def has_broker(self, topic: str, broker_name: str) -> bool:
        """Whether the route of a topic names a broker. Asks a name server now, even if the known route is fresh."""
        name = self._find_name(topic)
        self._ask_routes([name], None)
        known = self._cluster.get_known(name)
        return known is not None and bool(known.get_addresses(broker_name))

    def refresh(self, topics: Iterable[str], deadline_s: float | None = None) -> None:
        """Requests the routes that are not fresh, all at the same time.

        If no name server responds, known routes are used for another interval.
        """
        now_s = self._clock()
        names = [
            name for name in dict.fromkeys(map(self._find_name, topics)) if not self._cluster.is_fresh(name, now_s)
        ]
        if known := [name for name in names if self._cluster.get_known(name) is not None]:
            limit_s = min(REFRESH_MAX_S, self._servers.connection.request_timeout_ms / 2000)
            try:
                until_s = min(time.monotonic() + limit_s, deadline_s or math.inf)
                self._ask_routes(known, until_s, is_tried_once=True)
            except (BrokerUnavailable, BrokerBusy, HandshakeFailed) as error:
                level = logging.DEBUG if self._is_without_name_server else logging.WARNING
                _logger.log(level, "Keeping the known routes, because new ones cannot be requested: %s", error)
                self._is_without_name_server = True
                for name in known:
                    self._cluster.keep(name, self._clock())
        if unknown := [name for name in names if name not in known]:
            self._ask_routes(unknown, deadline_s)

    def _ask_routes(self, names: Sequence[str], deadline_s: float | None, is_tried_once: bool = False) -> None:
        """Requests routes. If a name server lacks a topic, the others are asked too: it may have just started."""
        missing = names
        for _ in self._cluster.list_name_servers():
            if not missing:
                return
            missing = self._ask_one_for_routes(missing, deadline_s, is_tried_once)
        for name in missing:
            self._cluster.learn_missing(name, self._clock())

    def _ask_one_for_routes(self, names: Sequence[str], deadline_s: float | None, is_tried_once: bool) -> list[str]:
        """Asks a name server. Returns the topics that it lacks; if any, the next name server is asked next."""
        missing: list[str] = []
        lacking: set[str] = set()
        with Exchange(self._servers) as exchange:
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
            probe_until_s = time.monotonic() + REFRESH_MAX_S
            probe = self._start_probe(exchange, probe_until_s)
            for name, call, response in zip(names, calls, exchange.wait(calls), strict=True):
                if response.code == ResponseCode.TOPIC_NOT_EXIST:
                    missing.append(name)
                    lacking |= {call.place.address} if call.place is not None else set()
                else:
                    route = decode_body(call, TopicRoute.decode)
                    self._cluster.learn(name, route, self._clock())
                    self._gone -= {data.broker_name for data in route.broker_datas}
            self._learn_proxy(exchange, probe, probe_until_s)
        self._is_without_name_server = False
        for address in lacking:
            self._cluster.leave_name_server(address)
        return missing

    def _start_probe(self, exchange: Exchange, until_s: float) -> Call | None:
        """Asks a name server for its brokers, once, to detect a proxy: a proxy does not serve this request."""
        if self._cluster.is_proxied is not None:
            return None
        command = RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO)
        return exchange.start(
            NAME_SERVER,
            command,
            accepted=ANY_CODE,
            deadline_s=until_s,
            is_tried_once=True,
        )

    def _learn_proxy(self, exchange: Exchange, probe: Call | None, until_s: float) -> None:
        """Learns whether the name servers are proxies. The next look asks again if none responds in time.

        The server that was asked may have gone, although another one at the same address has returned the route.
        """
        for _ in range(PROBES_MAX):
            if probe is None:
                return
            with suppress(RmqpullError):
                (response,) = exchange.wait([probe])
                self._cluster.is_proxied = response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            probe = self._start_probe(exchange, until_s) if time.monotonic() < until_s else None

    def _drop_deleted(self, topics: Iterable[str]) -> None:
        """Asks brokers that the name server has dropped whether they still have the topic.

        Brokers that do not respond at once are kept. So are those of which only a slave responds: it may lag.
        """
        with Exchange(self._servers) as exchange:
            calls = [
                exchange.start(
                    Target(topic, broker_name, may_use_slave=True),
                    RemotingCommand(RequestCode.GET_TOPIC_STATS_INFO, {"topic": self._find_asked(topic)}),
                    accepted=_FOUND_OR_NOT,
                    deadline_s=time.monotonic()
                    + min(REFRESH_MAX_S, self._servers.connection.request_timeout_ms / 2000),
                    is_tried_once=True,
                )
                for topic in topics
                for broker_name in self._cluster.list_absent(self._find_name(topic))
            ]
            for call in calls:
                try:
                    (response,) = exchange.wait([call])
                except RmqpullError:
                    continue
                is_told_by_master = call.place is not None and not call.place.is_slave
                if response.code == ResponseCode.TOPIC_NOT_EXIST and is_told_by_master:
                    self._cluster.drop_broker(self._find_name(call.target.topic), call.target.broker_name)

    def make_no_topic_error(self, topic: str) -> TopicNotFound:
        """Returns the exception for a topic without a route."""
        named = f"{self._find_name(topic)}, by which {topic} is found" if is_light(topic) else topic
        return TopicNotFound(
            ResponseCode.TOPIC_NOT_EXIST.name,
            f"The name server at {self._endpoints} has no route for topic {named}. Check the name, and create the "
            "topic if it is missing, for example with `mqadmin updateTopic`.",
        )

    def _find_asked(self, topic: str) -> str:
        """Returns the topic to ask brokers about: they claim that any light message queue exists."""
        return self._find_name(topic) if is_light(topic) else topic

    def _find_name(self, topic: str) -> str:
        return find_route_topic(self._servers.connection, topic)
