"""Calls to a real cluster: restarts, brokers that join, leave and fail over, access keys, TLS, wrong ports."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from processes.apache.access import Account
from processes.apache.access import Tls as ServerTls
from processes.apache.cluster import (
    ADMIN,
    ApacheCluster,
    make_cluster,
    make_guarded_cluster,
    make_replicated_cluster,
    make_secured_cluster,
)
from processes.apache.releases import RELEASE_4, Release
from rmqpull_broker.testing import running_broker
from rmqpull_client.connection import Connection, Credentials, Tls
from rmqpull_client.errors import (
    BrokerUnavailable,
    FilterRefused,
    GroupNotFound,
    HandshakeFailed,
    QueueNotFound,
    RequestRefused,
    TopicNotFound,
    Unserved,
)
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.apache import StartApache
from tests.harness.secured_proxy import CertificateAuthority
from tests.harness.waiting import wait_until

LONG_MS, SHORT_MS = 60_000, 1_000

Open = Callable[..., RemotingChannel]


@pytest.fixture
def connect() -> Iterator[Open]:
    with ExitStack() as stack:

        def open_channel(
            cluster: ApacheCluster,
            timeout_ms: int = LONG_MS,
            sleep: Callable[[float], None] = time.sleep,
            **settings: object,
        ) -> RemotingChannel:
            values = {"name_servers": cluster.addresses, "request_timeout_ms": timeout_ms, **settings}
            channel = RemotingChannel(Connection(**values), sleep=sleep)  # type: ignore[arg-type]
            stack.callback(channel.close)
            return channel

        yield open_channel


def ask_max(queue: MessageQueue, *, may_use_slave: bool = False) -> tuple[Target, RemotingCommand]:
    fields = {"topic": queue.topic, "queueId": str(queue.queue_id)}
    return Target.of(queue, may_use_slave=may_use_slave), RemotingCommand(RequestCode.GET_MAX_OFFSET, fields)


def make_pull_fields(topic: str, group: str) -> dict[str, str]:
    fields = {
        "topic": topic,
        "queueId": "0",
        "queueOffset": "0",
        "sysFlag": "4",
        "subscription": "*",
        "subVersion": "0",
    }
    return {**fields, "consumerGroup": group, "maxMsgNums": "1", "suspendTimeoutMillis": "0", "commitOffset": "0"}


@pytest.fixture(scope="module")
def guarded(apache_release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    """A cluster that checks access keys, with topics "orders" and "others"."""
    reader = Account("tests-reader", "secret-of-reader", topics={"orders": "SUB"}, groups={"readers": "SUB"})
    with make_guarded_cluster(tmp_path_factory.mktemp("guarded"), [reader], apache_release) as cluster:
        for topic in ("orders", "others"):
            cluster.administration.create_topic(topic, 1)
        yield cluster


def test_topics_routes_and_offsets(apache: ApacheCluster, connect: Open) -> None:
    apache.administration.create_topic("channel-topics", 3)
    apache.administration.create_topic("shop%channel-topics", 2)
    channel = connect(apache)
    assert {"channel-topics", "shop%channel-topics"} <= {*channel.listings.list_topics()}
    system = {
        "TBW102",
        "DefaultCluster",
        "DefaultCluster_REPLY_TOPIC",
        "broker-a",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
    }
    assert not system.intersection(channel.listings.list_topics())
    queues = channel.routes.get_route("channel-topics").list_readable("channel-topics")
    assert queues == [MessageQueue("channel-topics", "broker-a", queue) for queue in range(3)]
    assert [response.fields["offset"] for response in channel.call_all(map(ask_max, queues))] == ["0"] * 3
    inner = connect(apache, namespace="shop")
    assert len(inner.routes.get_route("channel-topics").list_writable("channel-topics")) == 2
    assert "channel-topics" in inner.listings.list_topics()


@pytest.fixture(scope="module")
def strict(apache_release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    """A cluster that allows little: group "g" exists, "closed" must not consume, and nobody may read "hidden"."""
    limits = {"enablePropertyFilter": "false", "autoCreateSubscriptionGroup": "false"}
    folder = tmp_path_factory.mktemp("strict")
    with make_cluster(folder, release=apache_release, properties=limits) as cluster:
        cluster.administration.create_topic("orders", 1)
        cluster.administration.create_topic("hidden", 1, perm=2)
        cluster.administration.create_group("g")
        cluster.administration.create_group("closed", consumeEnable=False)
        yield cluster


@pytest.mark.parametrize(
    ("changed", "kind", "text"),
    [
        ({"consumerGroup": "other"}, GroupNotFound, "Create the group on each broker"),
        ({"consumerGroup": "closed"}, RequestRefused, "NO_PERMISSION.*Check the permissions"),
        ({"topic": "hidden"}, RequestRefused, "NO_PERMISSION.*Check the permissions"),
        ({"topic": "nothing"}, TopicNotFound, "apply first please"),
        ({"queueId": "9"}, QueueNotFound, r"queueId\[9\] is illegal"),
        ({"subscription": "||"}, FilterRefused, "SUBSCRIPTION_PARSE_FAILED"),
        ({"expressionType": "SQL92", "subscription": "a = 1"}, FilterRefused, "enablePropertyFilter=true"),
    ],
)
def test_a_pull_is_refused(
    strict: ApacheCluster, connect: Open, changed: dict[str, str], kind: type[RequestRefused], text: str
) -> None:
    pull = RemotingCommand(RequestCode.PULL_MESSAGE, {**make_pull_fields("orders", "g"), **changed})
    with pytest.raises(kind, match=text):
        connect(strict).call(Target("orders", "broker-a"), pull)


def test_a_broker_that_rejects_those_who_only_pull(
    start_apache: StartApache, connect: Open, apache_release: Release
) -> None:
    cluster = start_apache(properties={"rejectPullConsumerEnable": "true"})
    cluster.administration.create_topic("orders", 1)
    ask = Target("orders", "broker-a"), RemotingCommand(RequestCode.PULL_MESSAGE, make_pull_fields("orders", "g"))
    if apache_release is RELEASE_4:  # 4.9 has no such setting
        assert connect(cluster).call(*ask, accepted={19}).code == 19
        return
    with pytest.raises(RequestRefused, match="rejectPullConsumerEnable=false on the brokers"):
        connect(cluster).call(*ask)


def test_wrong_addresses(apache: ApacheCluster, connect: Open) -> None:
    apache.administration.create_topic("channel-addresses", 1)
    queue = MessageQueue("channel-addresses", "broker-a", 0)
    broker = apache.brokers[0]
    with pytest.raises(Unserved, match="It is not a name server, perhaps a broker: set option nameServers"):
        connect(apache, name_servers=broker.address).listings.list_topics()
    misled = connect(apache, SHORT_MS, broker_addresses=f"broker-a={apache.addresses}")
    with pytest.raises((Unserved, BrokerUnavailable), match="name server"):
        misled.call(*ask_max(queue))
    pull = RemotingCommand(RequestCode.PULL_MESSAGE, {"topic": queue.topic})
    misled = connect(apache, broker_addresses=f"broker-a=127.0.0.1:{broker.port - 2}")
    with pytest.raises(Unserved, match="the broker's second port"):
        misled.call(Target.of(queue), pull)
    with pytest.raises(BrokerUnavailable, match=r"is running, then the port \(option brokerAddresses\)"):
        connect(apache, SHORT_MS, broker_addresses="broker-a=127.0.0.1:1").call(*ask_max(queue))


def test_a_grpc_port_in_the_place_of_a_name_server(apache: ApacheCluster, connect: Open) -> None:
    with running_broker({"orders": 1}) as grpc_broker:
        channel = connect(apache, SHORT_MS, name_servers=grpc_broker.endpoints)
        with pytest.raises(HandshakeFailed, match=r"The server speaks gRPC.*belongs in option endpoints"):
            channel.listings.list_topics()


@pytest.mark.nightly
def test_a_broker_that_is_killed_and_started_again_is_waited_for(start_apache: StartApache, connect: Open) -> None:
    cluster = start_apache()
    cluster.administration.create_topic("orders", 2)
    channel = connect(cluster)
    queues = channel.routes.get_route("orders").list_readable("orders")
    channel.call_all(map(ask_max, queues))
    broker = cluster.brokers[0]
    broker.kill()
    channel.cluster.suspect("orders")
    wait_until(lambda: not cluster.administration.find_route("orders"), "the name server has dropped the topic")
    assert channel.routes.get_route("orders").list_readable("orders") == queues
    broker.begin_start()
    assert [response.code for response in channel.call_all(map(ask_max, queues))] == [0, 0]
    broker.finish_start()
    cluster.administration.delete_topic("orders")
    channel.cluster.suspect("orders")
    wait_until(lambda: not channel.routes.get_routes(["orders"]), "the topic is gone")


def test_brokers_join_and_leave(start_apache: StartApache, connect: Open) -> None:
    cluster = start_apache(make_cluster, masters=("broker-a", "broker-b"))
    cluster.administration.create_topic("orders", 1, "broker-a")
    channel = connect(cluster, SHORT_MS, poll_name_server_interval_ms=10)
    names = [queue.broker_name for queue in channel.routes.get_route("orders").list_readable("orders")]
    assert names == ["broker-a"]
    cluster.administration.create_topic("orders", 1, "broker-b")
    routes = channel.routes
    wait_until(lambda: len(routes.get_route("orders").list_readable("orders")) == 2, "broker-b has the topic, too")
    cluster.find_broker("broker-b").kill()
    wait_until(lambda: routes.get_route("orders").absent == {"broker-b"}, "the name server has dropped broker-b")
    known = routes.get_route("orders")
    assert known.list_writable("orders") == [MessageQueue("orders", "broker-a", 0)]
    read, lost = known.list_readable("orders")
    assert channel.call(*ask_max(read)).code == 0
    with pytest.raises(BrokerUnavailable, match=r"Broker broker-b did not respond to GET_MAX_OFFSET within 1000 ms"):
        channel.call(*ask_max(lost))


@pytest.mark.nightly
def test_a_broker_that_registers_after_others_is_waited_for_and_a_deleted_topic_is_not(
    start_apache: StartApache, connect: Open
) -> None:
    """A query has read queues of both brokers. All servers are started again, one after the other."""
    cluster = start_apache(make_cluster, masters=("broker-a", "broker-b"))
    cluster.administration.create_topic("orders", 1)
    first, second = cluster.brokers
    for server in (*cluster.brokers, *cluster.name_servers):
        server.kill()
    for server in (*cluster.name_servers, first):
        server.start()

    def list_brokers(sleep: Callable[[float], object]) -> list[str]:
        channel = connect(cluster, server_away_timeout_ms=LONG_MS, sleep=sleep)
        for name in ("broker-a", "broker-b"):
            channel.cluster.expect("orders", name)
        found = channel.routes.get_routes(["orders"])
        return sorted(queue.broker_name for known in found.values() for queue in known.list_readable("orders"))

    pauses: list[float] = []

    def start_second(seconds: float) -> None:
        if not pauses:
            second.start()
        pauses.append(seconds)

    assert list_brokers(start_second) == ["broker-a", "broker-b"]
    assert pauses, "only one broker was registered at first"
    cluster.administration.delete_topic("orders")
    assert list_brokers(lambda _: pytest.fail("waits")) == [], "both brokers are registered, and neither has it"


def test_a_permission_that_is_taken_away_hides_no_queue(apache: ApacheCluster, connect: Open) -> None:
    topic = "permission-topic"
    apache.administration.create_topic(topic, 2)
    channel = connect(apache, poll_name_server_interval_ms=10)
    queues = channel.routes.get_route(topic).list_readable(topic)
    apache.administration.create_topic(topic, 2, perm=2)
    wait_until(lambda: channel.routes.get_route(topic).list_readable(topic) == [], "the route shows the permission")
    assert channel.routes.get_route(topic).list_unreadable(topic) == queues
    apache.administration.create_topic(topic, 2, perm=6)
    wait_until(lambda: channel.routes.get_route(topic).list_readable(topic) == queues, "the permission is back")
    assert channel.routes.get_route(topic).list_unreadable(topic) == []


@pytest.mark.nightly
def test_a_slave_responds_while_its_master_is_away(start_apache: StartApache, connect: Open) -> None:
    cluster = start_apache(make_replicated_cluster)
    cluster.administration.create_topic("orders", 1)
    channel = connect(cluster, SHORT_MS)
    (queue,) = channel.routes.get_route("orders").list_readable("orders")
    cluster.find_broker("broker-a").kill()
    assert channel.call(*ask_max(queue, may_use_slave=True)).code == 0
    administration = cluster.administration
    wait_until(lambda: not administration.find_masters(), "the name server has dropped the master")
    fresh = connect(cluster, SHORT_MS)
    assert fresh.routes.get_route("orders").list_readable("orders") == [queue]
    assert fresh.routes.get_route("orders").list_writable("orders") == []
    assert fresh.call(*ask_max(queue, may_use_slave=True)).code == 0
    with pytest.raises(BrokerUnavailable, match="broker broker-a has no master now"):
        fresh.call(*ask_max(queue))


@pytest.mark.parametrize(
    ("credentials", "topic", "advice"),
    [
        (Credentials(ADMIN.access_key, ADMIN.secret_key), "others", ""),
        (Credentials("tests-reader", "secret-of-reader"), "orders", ""),
        (Credentials("tests-reader", "secret-of-reader"), "others", "Grant the user of the access key PUB"),
        (Credentials("tests-reader", "wrong-secret"), "orders", "Check the access key and the secret key"),
        (Credentials("tests-nobody", "wrong-secret"), "orders", "Check the access key and the secret key"),
        (None, "orders", "The cluster checks access keys: set options accessKey and secretKey"),
    ],
)
def test_requests_are_signed(
    guarded: ApacheCluster, connect: Open, credentials: Credentials | None, topic: str, advice: str
) -> None:
    channel = connect(guarded, SHORT_MS, credentials=credentials)
    pull = Target(topic, "broker-a"), RemotingCommand(RequestCode.PULL_MESSAGE, make_pull_fields(topic, "readers"))
    if not advice:
        assert channel.call(*pull, accepted={19, 21}).remark in ("NO_MESSAGE_IN_QUEUE", "NO_MATCHED_LOGIC_QUEUE")
        return
    with pytest.raises(RequestRefused, match=advice) as refused:
        channel.call(*pull)
    assert refused.value.code in ("NO_PERMISSION", "SYSTEM_ERROR")
    assert "wrong-secret" not in str(refused.value)


def test_connections_are_encrypted(start_apache: StartApache, connect: Open, authority: CertificateAuthority) -> None:
    cert_file, key_file = authority.issue("apache", "127.0.0.1")
    client = authority.issue("channel-client")
    server_tls = ServerTls(cert_file, key_file, client_ca_file=authority.ca_file)
    client_tls = ssl.create_default_context(cafile=authority.ca_file)
    client_tls.load_cert_chain(*client)
    cluster = start_apache(make_secured_cluster, tls=server_tls, client_tls=client_tls)
    # Before anything has answered here: a server that has may be away, and is waited for.
    with pytest.raises(HandshakeFailed, match=r"4 connections in a row .* Then set option tlsEnabled to true"):
        connect(cluster).listings.list_topics()  # it does not try again until the time limit: that error is another one
    cluster.administration.create_topic("orders", 1)
    (queue,) = (
        connect(cluster, tls=Tls(str(authority.ca_file), *map(str, client)))
        .routes.get_route("orders")
        .list_readable("orders")
    )
    trusting = Tls(str(authority.ca_file), *map(str, client))
    assert connect(cluster, tls=trusting).call(*ask_max(queue)).code == 0
    with pytest.raises((HandshakeFailed, BrokerUnavailable), match="client certificate"):
        connect(cluster, SHORT_MS, tls=Tls(str(authority.ca_file))).listings.list_topics()
    with pytest.raises(HandshakeFailed, match="Check the CA file"):
        connect(cluster, SHORT_MS, tls=Tls()).listings.list_topics()


def test_tls_to_a_cluster_that_does_not_speak_it(start_apache: StartApache, connect: Open) -> None:
    cluster = start_apache(java_options=("-Xmx128m", "-Dtls.server.mode=disabled"))
    with pytest.raises(HandshakeFailed, match="does not speak TLS on this port"):
        connect(cluster, SHORT_MS, tls=Tls()).listings.list_topics()
