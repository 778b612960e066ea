"""Clusters of Apache's servers for tests and programs."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from processes.apache.access import (
    Account,
    Tls,
    write_acl_file,
    write_acl_properties,
    write_proxy_acl,
    write_proxy_keys,
)
from processes.apache.administration import Administration
from processes.apache.proxy import Proxy
from processes.apache.releases import RELEASE_5, Release
from processes.apache.servers import FOR_TESTS, Broker, NameServer, Role, Server

ADMIN = Account("tests-admin", "secret-of-admin", is_admin=True)
"""The administrator of clusters that check access keys."""


class ApacheCluster:
    """A name server and brokers, on free loopback ports. The ``with`` block starts and kills them.

    The servers are attributes, so that a test can kill, stop and restart each.
    """

    def __init__(self, name_servers: Sequence[NameServer], brokers: Sequence[Broker]) -> None:
        self.name_servers = list(name_servers)
        self.brokers = list(brokers)
        self._accounts: tuple[Account, ...] = ()
        self._proxies: list[Proxy] = []

    @property
    def addresses(self) -> str:
        """The addresses of the name servers: the value of option ``nameServers``."""
        return ";".join(server.address for server in self.name_servers)

    @property
    def administration(self) -> Administration:
        """Creates topics and the like."""
        return self.brokers[0].administration

    def find_broker(self, name: str, broker_id: int = 0) -> Broker:
        """Returns a broker by its name. A slave has an id greater than 0."""
        return next(one for one in self.brokers if (one.name, one.broker_id) == (name, broker_id))

    def start(self) -> None:
        """Starts all servers, and returns when all brokers are registered. Raises ProcessFailed, SoftwareMissing."""
        slaves = [broker for broker in self.brokers if broker.role is Role.SLAVE]
        masters = [broker for broker in self.brokers if broker.role is not Role.SLAVE]
        for servers in (self.name_servers, masters, slaves):
            for server in servers:
                server.begin_start()
            for server in servers:
                server.finish_start()
        for master in masters:
            if master.role is Role.SYNC_MASTER:
                master.wait_for_slave()

    def start_proxy(self, **settings: object) -> Proxy:
        """Starts a proxy of 5.x before this cluster, which must run. It ends with the cluster.

        ``settings`` are those of `rmq-proxy.json`. Raises ProcessFailed, SoftwareMissing.
        """
        first = self.name_servers[0]
        folder = first.folder.parent / f"proxy-{len(self._proxies)}"
        proxy = Proxy(release=first.release, folder=folder, name_servers=self.addresses, settings=settings)
        self._proxies.append(proxy)
        proxy.start()
        return proxy

    def wait_for_slaves(self, topic: str) -> None:
        """Returns when all slaves know a topic. Raises TimeoutError.

        Slaves of 4.x ask their masters for topics every 10 s; those of 5.x do it once a minute, so they are told.
        """
        for broker in self.brokers:
            if broker.role is Role.SLAVE:
                if broker.release.server.startswith("5."):
                    self.administration.tell_topic(topic, broker.name, broker.address)
                self.administration.wait_for_topic(topic, broker.address)

    def close(self) -> None:
        """Kills all servers and gives their ports back."""
        servers: list[Server] = [*self._proxies, *self.brokers, *self.name_servers]
        for server in servers:
            server.release_ports()

    def __enter__(self) -> ApacheCluster:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def make_cluster(
    folder: Path,
    masters: Sequence[str] = ("broker-a",),
    release: Release = RELEASE_5,
    name_servers: int = 1,
    **options: Any,
) -> ApacheCluster:
    """Returns a cluster of masters that are not started yet. ``options`` are those of each broker.

    Brokers register at each name server by itself. With several, a new topic is known to one before it is to another.
    """
    servers = [_make_name_server(folder, release, options, number) for number in range(name_servers)]
    return ApacheCluster(servers, [_make_broker(folder, servers, one, **options) for one in masters])


def make_replicated_cluster(
    folder: Path, release: Release = RELEASE_5, name_servers: int = 1, **options: Any
) -> ApacheCluster:
    """Returns a cluster of a SYNC_MASTER and its slave, both named `broker-a`.

    A consumer may read from the slave (`slaveReadEnable`). The master acknowledges a message when the slave has it; 5.x
    does so only with `inSyncReplicas=2`.
    """
    servers = [_make_name_server(folder, release, options, number) for number in range(name_servers)]
    replication = {"slaveReadEnable": "true", "inSyncReplicas": "2"}
    options["properties"] = {**replication, **options.get("properties", {})}
    master = _make_broker(folder, servers, "broker-a", role=Role.SYNC_MASTER, **options)
    slave = _make_broker(folder, servers, "broker-a", role=Role.SLAVE, broker_id=1, **options)
    return ApacheCluster(servers, [master, slave])


def make_proxied_cluster(
    folder: Path,
    release: Release = RELEASE_5,
    accounts: Sequence[Account] = (),
    proxy_tls: Tls | None = None,
    **options: Any,
) -> ProxiedCluster:
    """Returns a cluster of one broker with a proxy, for clients of gRPC and of remoting.

    With accounts, proxy and broker check access keys. ``options`` are those of the broker. It allows recalls, which it
    does not by default.
    """
    options["allows_tls"] = proxy_tls is not None  # such a proxy speaks TLS to broker and name server, too
    name_servers = [_make_name_server(folder, release, options)]
    options["properties"] = {"recallMessageEnable": "true", **options.get("properties", {})}
    settings: dict[str, object] = {}
    if accounts:
        options["properties"] |= write_acl_properties(release, ADMIN)
        options["credentials"] = ADMIN.credentials
        settings = write_proxy_acl(ADMIN)
        write_proxy_keys(folder / "proxy", ADMIN)
    broker = _make_broker(folder, name_servers, "broker-a", **options)
    proxy = Proxy(
        release=release,
        folder=folder / "proxy",
        name_servers=name_servers[0].address,
        settings=settings,
        tls=proxy_tls,
        java_options=options.get("java_options", FOR_TESTS),
    )
    return ProxiedCluster(name_servers, [broker], proxy, accounts)


def make_guarded_cluster(
    folder: Path, accounts: Sequence[Account] = (), release: Release = RELEASE_5, **options: Any
) -> ApacheCluster:
    """Returns a cluster of one broker that checks access keys: before 5.3 by `plain_acl.yml`, then by ACL 2.0.

    The accounts are added to :data:`ADMIN`. Those of 5.3 and later exist when the cluster has started.
    """
    name_servers = [_make_name_server(folder, release, options)]
    options["properties"] = {**write_acl_properties(release, ADMIN), **options.get("properties", {})}
    broker = _make_broker(folder, name_servers, "broker-a", credentials=ADMIN.credentials, **options)
    if release.has_acl_file:
        write_acl_file(broker.folder / "conf" / "plain_acl.yml", [ADMIN, *accounts])
        return ApacheCluster(name_servers, [broker])
    return _ClusterWithAccounts(name_servers, [broker], accounts)


def make_secured_cluster(
    folder: Path, tls: Tls, client_tls: ssl.SSLContext, release: Release = RELEASE_5, **options: Any
) -> ApacheCluster:
    """Returns a cluster of one broker whose name server and broker speak TLS. ``client_tls`` is for administration."""
    return make_cluster(folder, release=release, tls=tls, client_tls=client_tls, **options)


class ProxiedCluster(ApacheCluster):
    """A cluster of 5.x with a proxy."""

    def __init__(
        self,
        name_servers: Sequence[NameServer],
        brokers: Sequence[Broker],
        proxy: Proxy,
        accounts: Sequence[Account] = (),
    ) -> None:
        super().__init__(name_servers, brokers)
        self.proxy = proxy
        self._accounts = tuple(accounts)

    def start(self) -> None:
        super().start()
        for account in self._accounts:
            account.create(self.administration, self.brokers[0].address)
        self.proxy.start()  # it creates topics of its own on the brokers

    def __enter__(self) -> ProxiedCluster:
        super().__enter__()
        return self

    def close(self) -> None:
        self.proxy.release_ports()
        super().close()


class _ClusterWithAccounts(ApacheCluster):
    """A cluster of 5.x that creates its accounts when it starts."""

    def __init__(
        self, name_servers: Sequence[NameServer], brokers: Sequence[Broker], accounts: Sequence[Account]
    ) -> None:
        super().__init__(name_servers, brokers)
        self._accounts = tuple(accounts)

    def start(self) -> None:
        super().start()
        for account in self._accounts:
            account.create(self.administration, self.brokers[0].address)


def _make_name_server(folder: Path, release: Release, options: Mapping[str, Any], number: int = 0) -> NameServer:
    of_all = {name: options[name] for name in ("java_options", "tls", "allows_tls") if name in options}
    return NameServer(release=release, folder=folder / (f"name-server-{number}" if number else "name-server"), **of_all)


def _make_broker(
    folder: Path, name_servers: Sequence[NameServer], name: str, broker_id: int = 0, **options: Any
) -> Broker:
    return Broker(
        release=name_servers[0].release,
        folder=folder / (f"{name}-{broker_id}" if broker_id else name),
        name_servers=";".join(server.address for server in name_servers),
        name=name,
        broker_id=broker_id,
        **options,
    )
