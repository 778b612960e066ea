"""A client with access keys, through a proxy that speaks TLS and checks them: ACL 2.0 of a real cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from processes.apache.access import Account, Tls
from processes.apache.cluster import ProxiedCluster, make_proxied_cluster
from processes.apache.releases import Release
from rmqpull_client.connection import Connection, Credentials
from rmqpull_client.connection import Tls as ClientTls
from rmqpull_client.errors import RequestRefused
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.transports.choice import connect
from tests.harness.secured_proxy import CertificateAuthority

QUEUE = MessageQueue("orders", "broker-a", 0)
TOPICS, GROUPS = {"orders": "PUB|SUB|GET"}, {"readers": "SUB|GET"}


@pytest.fixture(scope="module")
def cluster(
    apache_release: Release, authority: CertificateAuthority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ProxiedCluster]:
    if apache_release.name in ("4.9", "5.1"):
        pytest.skip("4.x has no proxy, and Maven has none of 5.1.4")
    accounts = [
        Account("may-all", "secret-of-may-all", topics=TOPICS, groups=GROUPS),
        Account("may-nothing", "secret-of-may-nothing"),
    ]
    certificate = Tls(*authority.issue("proxy", "127.0.0.1"))
    folder = tmp_path_factory.mktemp("guarded-proxy")
    with make_proxied_cluster(folder, apache_release, accounts, certificate) as started:
        started.administration.create_topic("orders", 1)
        yield started


def make_connection(cluster: ProxiedCluster, authority: CertificateAuthority, user: str, secret: str) -> Connection:
    return Connection(
        name_servers=cluster.proxy.remoting_address,
        credentials=Credentials(user, secret),
        tls=ClientTls(ca_file=str(authority.ca_file)),
    )


def test_a_user_with_rights_writes_and_reads(cluster: ProxiedCluster, authority: CertificateAuthority) -> None:
    client = connect(make_connection(cluster, authority, "may-all", "secret-of-may-all"))
    client.publish("orders", pa.record_batch({"body": [b"one", b"two"]}))
    cluster.administration.wait_until_in_queues("orders", {one.name: one.address for one in cluster.brokers})
    assert client.query_bounds(["orders"])["orders"].queues == {QUEUE: (0, 2)}
    steps = client.read("readers", [QueueRange(QUEUE, 0, 2)], ["body"])
    bodies = [body for step in steps for entry in step for batch in entry.batches for body in batch["body"].to_pylist()]
    assert bodies == [b"one", b"two"]
    client.check_group("readers", [QUEUE])
    client.set_consumer_offsets("readers", {QUEUE: 2})
    assert client.get_consumer_offsets("readers", [QUEUE]) == {QUEUE: 2}
    client.close()


@pytest.mark.parametrize(
    ("user", "secret", "advice"),
    [
        ("may-all", "wrong", "Check the access key and the secret key"),
        ("nobody", "secret", "Check the access key and the secret key"),
        ("may-nothing", "secret-of-may-nothing", "Grant the user of the access key PUB"),
    ],
)
def test_others_are_refused_with_what_to_do(
    cluster: ProxiedCluster, authority: CertificateAuthority, user: str, secret: str, advice: str
) -> None:
    client = connect(make_connection(cluster, authority, user, secret))
    with pytest.raises(RequestRefused, match=advice):
        client.query_bounds(["orders"])
    client.close()
