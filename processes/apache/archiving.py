"""Makes the archives of classes that Apache's servers start with (``class_archives.py``)."""

from __future__ import annotations

import tempfile
from pathlib import Path

from processes.apache.class_archives import name_folder
from processes.apache.cluster import ApacheCluster, ProxiedCluster, make_cluster, make_proxied_cluster
from processes.apache.releases import RELEASE_5, Release
from processes.apache.servers import Server
from processes.maven import made_once


def make_archives(release: Release) -> None:
    """Starts the servers of a release, uses them, and keeps the classes that they have loaded: in 20 s, and only once.

    They are a name server and a broker, and of :data:`RELEASE_5` a proxy. Raises ProcessFailed and SoftwareMissing.
    """
    with made_once(name_folder(release.fetch_server_jars())) as made, tempfile.TemporaryDirectory() as folder:
        if made is None:
            return
        make = make_proxied_cluster if release == RELEASE_5 else make_cluster
        cluster = make(Path(folder), release=release)
        servers: list[Server] = [*cluster.brokers, *cluster.name_servers]
        if isinstance(cluster, ProxiedCluster):
            servers.insert(0, cluster.proxy)
        for server in servers:
            server.archives_to = made
        with cluster:
            _use(cluster)
            for server in servers:
                server.end()


def _use(cluster: ApacheCluster) -> None:
    """Does what most tests do."""
    administration, (broker,) = cluster.administration, cluster.brokers
    administration.create_topic("orders", 2)
    administration.create_group("readers")
    administration.send(broker.address, "orders", b"body")
    administration.wait_until_in_queues("orders", {broker.name: broker.address})
    administration.set_offset("readers", "orders", 0, 1)
    assert administration.query_offset("readers", "orders", 0) == 1
    assert administration.count_messages("orders") == 1
