"""The clusters that tests and programs ask for."""

from __future__ import annotations

import ssl

import pytest

from processes.apache.access import Account, Tls
from processes.apache.administration import Administration
from processes.apache.calls import CallRefused, Credentials
from processes.apache.cluster import ADMIN, make_cluster, make_guarded_cluster, make_replicated_cluster
from processes.apache.cluster import make_secured_cluster as make_secured
from tests.harness.apache import StartApache
from tests.harness.secured_proxy import CertificateAuthority

READER = Account("reader-1", "secret-of-reader", topics={"orders": "SUB"}, groups={"readers": "SUB"})


def test_two_masters_share_a_topic(start_apache: StartApache) -> None:
    cluster = start_apache(make_cluster, masters=("broker-a", "broker-b"))
    cluster.administration.create_topic("orders", 2)
    cluster.administration.create_topic("bills", 2, "broker-b")
    brokers = {one["brokerName"] for one in cluster.administration.find_route("orders")["queueDatas"]}
    assert brokers == {"broker-a", "broker-b"}
    assert cluster.administration.find_route("bills")["brokerDatas"][0]["brokerName"] == "broker-b"


def test_the_second_name_server_serves_when_the_first_is_killed(start_apache: StartApache) -> None:
    cluster = start_apache(make_cluster, name_servers=2)
    first, second = cluster.name_servers
    assert cluster.addresses == f"{first.address};{second.address}"
    first.kill()
    cluster.administration.create_topic("orders", 2)
    assert "orders" in Administration(second.address).list_topics()


def test_a_broker_is_ready_when_all_name_servers_that_run_know_it(start_apache: StartApache) -> None:
    cluster = start_apache(make_cluster, name_servers=2)
    (broker,) = cluster.brokers
    for server in cluster.name_servers:
        assert Administration(server.address).find_masters() == {"broker-a": broker.address}
    cluster.name_servers[0].kill()
    broker.restart()
    assert cluster.administration.find_masters() == {"broker-a": broker.address}


def test_a_topic_needs_a_broker_to_be_created_on(start_apache: StartApache) -> None:
    cluster = start_apache(make_cluster)
    with pytest.raises(LookupError, match="no name server knows a master of broker-b"):
        cluster.administration.create_topic("orders", broker="broker-b")


def test_a_slave_is_registered_beside_its_master(start_apache: StartApache) -> None:
    cluster = start_apache(make_replicated_cluster)
    master, slave = cluster.find_broker("broker-a"), cluster.find_broker("broker-a", 1)
    assert cluster.administration.find_brokers() == {"broker-a": {0: master.address, 1: slave.address}}


def test_a_guarded_broker_knows_its_accounts(start_apache: StartApache) -> None:
    cluster = start_apache(make_guarded_cluster, accounts=[READER])
    cluster.administration.create_topic("orders", 1)
    cluster.administration.create_group("readers")

    def query(credentials: Credentials | None) -> int | None:
        return Administration(cluster.addresses, credentials).query_offset("readers", "orders", 0)

    cluster.administration.set_offset("readers", "orders", 0, 3)
    assert [query(ADMIN.credentials), query(READER.credentials)] == [3, 3]
    for refused in (Credentials(READER.access_key, "another-secret"), Credentials("nobody-1", "no-secret"), None):
        with pytest.raises(CallRefused):
            query(refused)
    with pytest.raises(CallRefused):
        Administration(cluster.addresses, READER.credentials).create_topic("reports")


def test_a_secured_cluster_speaks_tls_only(start_apache: StartApache, authority: CertificateAuthority) -> None:
    certificate = Tls(*authority.issue("apache", "127.0.0.1"))
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    cluster = start_apache(make_secured, tls=certificate, client_tls=context)
    cluster.administration.create_topic("orders")
    with pytest.raises(ConnectionError):
        Administration(cluster.addresses).list_topics()


def test_a_cluster_can_ask_for_the_certificates_of_clients(
    start_apache: StartApache, authority: CertificateAuthority
) -> None:
    certificate = Tls(*authority.issue("apache", "127.0.0.1"), client_ca_file=authority.ca_file)
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    context.load_cert_chain(*authority.issue("client"))
    cluster = start_apache(make_secured, tls=certificate, client_tls=context)
    cluster.administration.create_topic("orders")
    without = ssl.create_default_context(cafile=str(authority.ca_file))
    with pytest.raises(OSError, match=r"certificate|connection"):
        Administration(cluster.addresses, tls=without).list_topics()
