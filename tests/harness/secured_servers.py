"""Servers of any kind that speak TLS, ask for certificates and check signatures."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from processes.apache.access import Account, Tls
from processes.apache.cluster import ProxiedCluster, make_guarded_cluster, make_proxied_cluster
from processes.apache.releases import Release
from pyspark_rmqpull.options.progress import DERIVED_GROUP
from tests.harness.apache import StartApache
from tests.harness.apache_servers import ApacheServer
from tests.harness.secured_proxy import CertificateAuthority, StartProxy
from tests.harness.servers import ManagedServer, StartServer

ACCESS_KEY, SECRET = "acc3ssOfTheTests", "s3cr3tOfTheTests"
GROUP = "g"
"""The consumer group that may read."""


@dataclass(frozen=True)
class SecuredServer:
    """A server, as those see it who need no keys, and the options of source and sink that reach it with keys."""

    server: ManagedServer
    options: dict[str, str]


StartSecured = Callable[[dict[str, int]], SecuredServer]
"""Takes topics by name, with their number of queues."""


def make_secured_options(authority: CertificateAuthority, server: dict[str, str]) -> dict[str, str]:
    """Returns options with keys and certificates."""
    cert_file, key_file = map(str, authority.issue("client"))
    keys = {"accessKey": ACCESS_KEY, "secretKey": SECRET, "tlsEnabled": "true"}
    files = {"tlsCaFile": str(authority.ca_file), "tlsCertFile": cert_file, "tlsKeyFile": key_file}
    return server | keys | files


def start_behind_proxy(
    topics: dict[str, int], authority: CertificateAuthority, start_server: StartServer, start_proxy: StartProxy
) -> SecuredServer:
    """Starts a broker of this project behind a proxy, which does what the broker itself does not."""
    server = start_server(topics)
    certificate = authority.issue("server", "127.0.0.1")
    proxy = start_proxy(server.options["endpoints"], {ACCESS_KEY: SECRET}, certificate, asks_certificate=True)
    return SecuredServer(server, make_secured_options(authority, {"endpoints": proxy.endpoints}))


def start_guarded_cluster(
    topics: dict[str, int], authority: CertificateAuthority, start_apache: StartApache, release: Release
) -> SecuredServer:
    """Starts a cluster of Apache's that checks all of this itself."""
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    context.load_cert_chain(*authority.issue("client"))
    certificate = make_certificate(authority)
    account = make_account(topics, release)
    cluster = start_apache(make_guarded_cluster, accounts=[account], tls=certificate, client_tls=context)
    server = ApacheServer(cluster)
    server.create_topics(topics)
    return SecuredServer(server, make_secured_options(authority, dict(server.options)))


def start_guarded_proxy(
    topics: dict[str, int], authority: CertificateAuthority, start_apache: StartApache, release: Release
) -> SecuredServer:
    """Starts a cluster whose proxy checks all of this. Its brokers check signatures, and speak no TLS."""
    cluster = start_proxy_with(make_account(topics, release), make_certificate(authority), start_apache)
    server = ApacheServer(cluster)
    server.create_topics(topics)
    through = {"nameServers": cluster.proxy.remoting_address}
    return SecuredServer(server, make_secured_options(authority, dict(server.options) | through))


def start_proxy_with(account: Account, certificate: Tls, start_apache: StartApache) -> ProxiedCluster:
    """Starts a cluster whose proxy speaks TLS and checks signatures."""
    cluster = start_apache(make_proxied_cluster, accounts=[account], proxy_tls=certificate)
    assert isinstance(cluster, ProxiedCluster)
    return cluster


def make_certificate(authority: CertificateAuthority) -> Tls:
    """Returns the certificate of a server of Apache's that asks clients for theirs."""
    return Tls(*authority.issue("apache", "127.0.0.1"), client_ca_file=authority.ca_file)


def make_account(topics: dict[str, int], release: Release) -> Account:
    """Returns the account of source and sink, with the rights that they need."""
    # ACL 2.0 asks for GET too, to tell the bounds of a queue and the members of a group. 1.0 does not know it.
    get = "" if release.has_acl_file else "|GET"
    return Account(
        ACCESS_KEY,
        SECRET,
        topics=dict.fromkeys(topics, f"PUB|SUB{get}"),
        groups=dict.fromkeys((GROUP, DERIVED_GROUP), f"SUB{get}"),
    )
