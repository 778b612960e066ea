"""Two of Apache's proxies at one address, through which the query of a round reaches the brokers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from processes.apache.cluster import ApacheCluster
from processes.apache.proxy import Proxy
from processes.children import Children
from processes.forwarder import Forwarder
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.json_dialect import read_json

PROXIES = 2
TOLD_WITHIN_S = 90.0
"""A proxy that is asked repeatedly serves a new route after at most 20 s, its default."""
_LOOK_S = 0.5


class Proxies:
    """Proxies before a cluster that runs, and a load balancer before them that knows nothing of their health."""

    def __init__(self, cluster: ApacheCluster, children: Children) -> None:
        self._administration = cluster.administration
        self._proxies: Sequence[Proxy] = [cluster.start_proxy() for _ in range(PROXIES)]
        for proxy in self._proxies:
            children.adopt(proxy)
        self._balancer = Forwarder([proxy.remoting_address for proxy in self._proxies])
        self._brokers = sorted({broker.name for broker in cluster.brokers})

    @property
    def options(self) -> Mapping[str, str]:
        """The options of source and sink that lead to the balancer only."""
        address = self._balancer.address
        return {"nameServers": address, "brokerAddresses": ";".join(f"{name}={address}" for name in self._brokers)}

    def __getitem__(self, number: int) -> Proxy:
        """Returns a proxy by its number, modulo how many there are."""
        return self._proxies[number % PROXIES]

    def wait_until_told(self, topics: Iterable[str]) -> None:
        """Returns when each proxy names the same queues of the topics as the name servers. Raises TimeoutError.

        A query that reads everything reads the queues that a proxy names, and a proxy may still serve an old route.
        """
        deadline = time.monotonic() + TOLD_WITHIN_S
        for topic in topics:
            wanted = _list_queues(self._administration.find_route(topic))
            for address in (proxy.remoting_address for proxy in self._proxies):
                while self._ask(address, topic) != wanted:
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"The proxy at {address} still serves an old route of {topic}.")
                    time.sleep(_LOOK_S)

    def _ask(self, address: str, topic: str) -> list[tuple[str, int]]:
        code, refusals = RequestCode.GET_ROUTEINFO_BY_TOPIC, (ResponseCode.TOPIC_NOT_EXIST,)
        response = self._administration.call(address, code, {"topic": topic}, refusals_allowed=refusals)
        return [] if response.code else _list_queues(read_json(response.body))

    def close(self) -> None:
        """Closes the balancer. The proxies end with their cluster."""
        self._balancer.close()


def _list_queues(route: Mapping[str, object]) -> list[tuple[str, int]]:
    queues = route.get("queueDatas") or []
    assert isinstance(queues, list)
    return sorted((entry["brokerName"], entry["readQueueNums"]) for entry in queues)
