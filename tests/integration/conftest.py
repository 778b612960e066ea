"""One Spark session for all tests, servers of each kind, and a topic for each test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from processes.apache.releases import Release
from tests.harness import spark_kinds
from tests.harness.apache import OPTION, StartApache, run_apache
from tests.harness.apache_servers import ApacheServer, Clusters
from tests.harness.broker_processes import StartBroker
from tests.harness.secured_proxy import CertificateAuthority, StartProxy
from tests.harness.secured_servers import StartSecured, start_behind_proxy, start_guarded_cluster, start_guarded_proxy
from tests.harness.server_kinds import OF_APACHE, PROXY, READING, leave_out, leave_to_the_night, make_params
from tests.harness.servers import Server, StartCrashingServer, StartServer
from tests.harness.spark_queries import Queries, Topic
from tests.harness.start_servers import GetClusters, run_servers, start_crashing_server, start_process_server

TOPICS_MAX = 200


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_to_the_night(items)
    leave_out(items, config.getoption(OPTION))
    spark_kinds.leave_out(items)


@pytest.fixture(scope="session")
def spark(processes_allowed: None) -> Iterator[SparkSession]:
    """A session with the settings that the project recommends."""
    session = SparkSession.builder.master("local[2]").appName("rmqpull tests").getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session", params=make_params(READING))
def kind(request: pytest.FixtureRequest) -> str:
    """Every test runs with a broker with the columnar extension, with one without, and over the remoting protocol: with
    a broker, with Apache RocketMQ, and with Apache RocketMQ behind its proxy.
    """
    return str(request.param)


@pytest.fixture(scope="session")
def apache_clusters(apache_release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """Clusters of Apache RocketMQ that tests share."""
    with run_apache(apache_release, tmp_path_factory.mktemp("clusters")) as start:
        yield Clusters(start)


@pytest.fixture(scope="session")
def get_clusters(request: pytest.FixtureRequest) -> GetClusters:
    """Starts the clusters of Apache RocketMQ when they are asked for: most tests run without them."""
    return lambda: request.getfixturevalue("apache_clusters")


@pytest.fixture
def start_server(kind: str, get_clusters: GetClusters) -> Iterator[StartServer]:
    """Starts servers of this kind for one test."""
    with run_servers(kind, get_clusters) as start:
        yield start


@pytest.fixture
def start_crashing(
    kind: str, start_broker: StartBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> StartCrashingServer:
    """Starts a server of this kind that one test kills."""

    def get_start_apache() -> StartApache:
        start: StartApache = request.getfixturevalue("start_apache")
        return start

    return lambda topics: start_crashing_server(kind, topics, tmp_path, start_broker, get_start_apache)


@pytest.fixture
def start_secured(
    kind: str,
    authority: CertificateAuthority,
    start_server: StartServer,
    start_proxy: StartProxy,
    request: pytest.FixtureRequest,
) -> StartSecured:
    """Starts a server of this kind that speaks TLS, asks for certificates and checks signatures."""
    if kind in OF_APACHE:
        start = start_guarded_proxy if kind == PROXY else start_guarded_cluster
        apache = request.getfixturevalue("start_apache"), request.getfixturevalue("apache_release")
        return lambda topics: start(topics, authority, *apache)
    return lambda topics: start_behind_proxy(topics, authority, start_server, start_proxy)


@pytest.fixture(scope="session")
def shared_servers() -> dict[str, Server]:
    """The servers that all tests share, by kind."""
    return {}


@pytest.fixture
def server(
    kind: str,
    shared_servers: dict[str, Server],
    start_session_broker: StartBroker,
    get_clusters: GetClusters,
) -> Server:
    """The server of this kind, shared by all tests, with topics of three queues."""
    if kind not in shared_servers:
        topics = {f"topic-{number}": 3 for number in range(TOPICS_MAX)}
        shared_servers[kind] = (
            get_clusters().start_shared_server(is_proxied=kind == PROXY)
            if kind in OF_APACHE
            else start_process_server(kind, topics, start_session_broker)
        )
    return shared_servers[kind]


@pytest.fixture(scope="session")
def topic_numbers() -> Iterator[int]:
    return count()


def _make_topic(server: Server, number: int) -> Topic:
    name = f"topic-{number % TOPICS_MAX}"
    if isinstance(server, ApacheServer):
        server.create_topic(name, 3)
    return Topic(name, server)


@pytest.fixture
def topic(server: Server, topic_numbers: Iterator[int]) -> Topic:
    """A topic of three queues that no other test uses."""
    return _make_topic(server, next(topic_numbers))


@pytest.fixture
def second_topic(server: Server, topic_numbers: Iterator[int]) -> Topic:
    """Another one."""
    return _make_topic(server, next(topic_numbers))


@pytest.fixture
def queries(spark: SparkSession, tmp_path: Path) -> Iterator[Queries]:
    yield Queries(spark, tmp_path / "checkpoint")
    for query in spark.streams.active:
        query.stop()
