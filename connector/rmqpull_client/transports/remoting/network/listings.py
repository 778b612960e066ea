"""What name servers list: topics and brokers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from rmqpull_client.connection import MASTER_ID, unwrap_name
from rmqpull_client.errors import (
    BrokerBusy,
    BrokerFailed,
    BrokerUnavailable,
    RequestRefused,
    RmqpullError,
    Unserved,
)
from rmqpull_client.transports.remoting.network.calls import Call
from rmqpull_client.transports.remoting.network.cluster import NAME_SERVER, ClusterView, Place, is_system_topic
from rmqpull_client.transports.remoting.network.exchange import ANY_CODE, Exchange
from rmqpull_client.transports.remoting.network.failures import (
    join_names,
    make_bad_body_error,
    make_proxy_error,
    make_proxy_group_error,
    make_unlisted_error,
)
from rmqpull_client.transports.remoting.network.looks import make_looks
from rmqpull_client.transports.remoting.network.servers import Servers
from rmqpull_proto.names import TBW102
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand, WireError
from rmqpull_proto.remoting.routes import BrokerData, ClusterInfo, TopicList

REFRESH_MAX_S = 3.0
"""How long to wait for a name server that has answered before: Java's mqClientApiTimeout (rules 1.1)."""
_T = TypeVar("_T")
_logger = logging.getLogger(__name__)


class Listings:
    """The listings of one cluster. Methods raise what calls of a channel raise."""

    def __init__(
        self, servers: Servers, cluster: ClusterView, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self._servers = servers
        self._cluster = cluster
        self._clock = clock
        self._sleep = sleep
        self._endpoints = servers.connection.endpoints_and_namespace
        self._has_checked_given = not servers.connection.broker_addresses

    def list_topics(self) -> list[str]:
        """Returns the topics in the connection's namespace, except RocketMQ's own (rules 3.9.2, 4.4).

        A name server that has just started lists a topic only once its brokers have registered again. So known and
        expected topics stay until a broker no longer has them, and a name server without brokers is asked again, for as
        long as servers that are away are waited for. Raises OptionError if the name server does not list topics.
        """
        known = {*self._cluster.list_known(), *self._cluster.expected}
        for _ in make_looks(self._servers.connection, self.describe_none, self._clock, self._sleep):
            listed, own, has_brokers = self._ask_topics()
            if has_brokers or listed or known:
                break
        for name in known.difference(listed):
            self._cluster.suspect(name)
        names = (name for name in known.union(listed) if not is_system_topic(name, own))
        inner = (unwrap_name(self._servers.connection.namespace, name) for name in names)
        return sorted(name for name in inner if name is not None)

    def _ask_topics(self) -> tuple[Sequence[str], set[str], bool]:
        """Asks a name server. If it has no brokers, the next call asks the next one.

        Returns all topics, the names of clusters and brokers, and whether there are brokers, as far as that is known.
        """
        with Exchange(self._servers) as exchange:
            listing = RemotingCommand(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
            topics = exchange.start(NAME_SERVER, listing)
            describing = RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO)
            brokers = exchange.start(NAME_SERVER, describing, accepted=ANY_CODE)
            try:
                exchange.wait([topics, brokers])
            except BrokerFailed as error:
                raise make_unlisted_error(self._endpoints, error) from None
            except Unserved:
                if (proxy := self._find_proxy(exchange)) is not None:
                    raise make_proxy_error(proxy) from None
                raise
        names = decode_body(topics, TopicList.decode).topics
        if brokers.get_response().code != ResponseCode.SUCCESS:  # not every compatible name server has this request
            return names, set(), True
        info = decode_body(brokers, ClusterInfo.decode)
        if not info.brokers and brokers.place is not None:
            self._cluster.leave_name_server(brokers.place.address)
        return names, {*info.brokers, *info.clusters}, bool(info.brokers)

    def _find_proxy(self, exchange: Exchange) -> Place | None:
        """Returns the server, which lists nothing, if it is a proxy: unlike a broker, it serves routes.

        Whether the topic exists does not matter.
        """
        asking = RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": TBW102})
        route = exchange.start(NAME_SERVER, asking, accepted=ANY_CODE)
        (response,) = exchange.wait([route])
        return route.place if response.code in (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST) else None

    def describe_none(self) -> str:
        """Describes what is waited for while no broker is registered."""
        return f"the brokers of the name server at {self._endpoints}, which has none"

    def list_masters_of_groups(self) -> list[str]:
        """Lists the brokers to ask for consumer groups. Raises OptionError if the server is a proxy."""
        try:
            return sorted(self.list_masters())
        except Unserved:
            with Exchange(self._servers) as exchange:
                if (proxy := self._find_proxy(exchange)) is not None:
                    raise make_proxy_group_error(proxy) from None
            raise

    def list_masters(self) -> set[str]:
        """Lists the brokers whose masters are registered, and so their topics: slaves do not register topics."""
        return find_masters(self.list_brokers())

    def list_brokers(self, limit_s: float | None = None) -> Mapping[str, BrokerData]:
        """Lists the registered brokers by name. With ``limit_s``, each name server is asked once, within it."""
        deadline_s = None if limit_s is None else time.monotonic() + limit_s
        with Exchange(self._servers) as exchange:
            command = RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO)
            call = exchange.start(NAME_SERVER, command, deadline_s=deadline_s, is_tried_once=limit_s is not None)
            exchange.wait([call])
            brokers = decode_body(call, ClusterInfo.decode).brokers
        self._cluster.note_brokers(brokers)
        return brokers

    def ask_each_for_brokers(self) -> Iterator[Mapping[str, BrokerData] | None]:
        """Asks one name server after the other, each once, for the brokers that are registered there.

        Yields None for one that does not serve the request, and nothing for one that is away.
        """
        for name_server in self._cluster.list_name_servers():
            try:
                yield self.list_brokers(min(REFRESH_MAX_S, self._servers.connection.request_timeout_ms / 2000))
            except (BrokerUnavailable, BrokerBusy) as error:
                _logger.debug("Cannot ask which brokers are registered: %s", error)
            except RequestRefused:
                yield None
            self._cluster.leave_name_server(name_server.address)

    def check_given(self) -> None:
        """Warns, once, of names in ``brokerAddresses`` that no broker has. Such a broker may still join."""
        if self._has_checked_given or not self._cluster.list_known():
            return
        self._has_checked_given = True
        if not (unnamed := self._cluster.list_unnamed()):
            return
        try:
            brokers = self.list_brokers(min(REFRESH_MAX_S, self._servers.connection.request_timeout_ms / 2000))
        except RmqpullError as error:  # not every compatible name server has this request
            _logger.info("Cannot check the names in option brokerAddresses: %s", error)
            return
        if unknown := [name for name in unnamed if name not in brokers]:
            _logger.warning(
                "Option brokerAddresses names %s, which the cluster at %s does not have now. Its brokers are %s. If "
                "you mean one of these, correct the name.",
                join_names(unknown),
                self._endpoints,
                join_names(sorted(brokers)),
            )


def find_masters(brokers: Mapping[str, BrokerData]) -> set[str]:
    """Returns the names of brokers whose masters are registered."""
    return {name for name, data in brokers.items() if MASTER_ID in data.broker_addrs}


def decode_body(call: Call, decode: Callable[[bytes | memoryview], _T]) -> _T:
    """Returns the body of the response to a call."""
    try:
        return decode(call.get_response().body)
    except WireError as error:
        assert call.place is not None
        raise make_bad_body_error(call.place, call.command, error) from None
