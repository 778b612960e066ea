"""Fixtures of all tests, the settings of Spark and Hypothesis, and the order in which tests run."""

from __future__ import annotations

import logging
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from processes.apache.cluster import ApacheCluster
from processes.apache.oracle import JavaOracle
from processes.apache.releases import Release
from processes.spark import SparkMissing
from rmqpull_client.transports.away import ANSWERED
from tests.harness.apache import ApachePlugin, StartApache, add_option, choose_release, run_apache
from tests.harness.broker_processes import StartBroker, run_brokers
from tests.harness.process_guard import ProcessGuard
from tests.harness.secured_proxy import CertificateAuthority, StartProxy, run_proxies
from tests.harness.spark_settings import spark_environment

# No test asserts a time, and neither does an example of a property. The night tries a hundred times as many examples.
settings.register_profile("rmqpull", deadline=None, max_examples=30)
# For make test-fast, where the examples of properties would take most of the time.
settings.register_profile("fast", deadline=None, max_examples=10)
# For .ci/nightly. A failure prints what repeats it.
settings.register_profile("nightly", deadline=None, max_examples=3_000, print_blob=True)
# For make fuzz.
settings.register_profile("fuzz", deadline=None, max_examples=10_000, print_blob=True)
settings.load_profile("rmqpull")

TESTS = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    # gRPC 1.67 logs harmless failed reads of its own poller, when a process has several event loops.
    logging.getLogger("asyncio").addFilter(lambda record: "PollerCompletionQueue" not in record.getMessage())
    config.pluginmanager.register(ProcessGuard(), "process_guard")
    config.pluginmanager.register(ApachePlugin(), "apache")


@pytest.fixture(scope="session")
def processes_allowed() -> None:
    """For fixtures that start processes: tests that use them get the marker ``processes``."""


LONGEST_FIRST = (
    "soak",
    "bench",
    "processes/apache",
    "differential",
    "client/transports/remoting/reading",
    "integration",
)
RUN_AGAIN = pytest.mark.flaky(reruns=1, only_rerun=["Python worker failed to connect back\\."])
"""Only this failure is retried. It is Spark's own, when a JVM or a Python process pauses for 10 s while one starts the
other.

Only tests that start processes have the mark, which costs a request to the first process for each test.
"""


def pytest_sessionstart(session: pytest.Session) -> None:
    """Sends the requests about tests that may run again at once. Nagle's algorithm would delay each by 40 ms."""
    connection: Any = getattr(getattr(session.config, "failures_db", None), "sock", None)
    if connection is not None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the slowest tests first, so that processes that share the tests end at nearly the same time."""
    for item in items:
        if item.get_closest_marker("processes"):
            item.add_marker(RUN_AGAIN)

    ranks: dict[Path, int] = {}  # paths are slow, and there are a hundred times as many tests as files
    for path in {item.path for item in items}:
        folders = (rank for rank, folder in enumerate(LONGEST_FIRST) if path.is_relative_to(TESTS / folder))
        ranks[path] = next(folders, len(LONGEST_FIRST))
    items.sort(key=lambda item: -1 if item.get_closest_marker("long") else ranks[item.path])


@pytest.fixture(scope="session", autouse=True)
def _spark_environment() -> Iterator[None]:
    """Gives every Spark that a test starts the settings of the tests."""
    with (
        tempfile.TemporaryDirectory(prefix="rmqpull-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as environment,
    ):
        # `make test-packages` runs the tests that need no Spark where there is none.
        with suppress(SparkMissing):
            for name, value in spark_environment(Path(folder)).items():
                environment.setenv(name, value)
        yield


@pytest.fixture(autouse=True)
def _no_server_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgets the servers of earlier tests: one with the same port would be waited for as if it had answered before."""
    monkeypatch.setattr(ANSWERED, "_addresses", {})


@pytest.fixture
def start_broker(processes_allowed: None) -> Iterator[StartBroker]:
    """Starts broker processes that end with the test."""
    with run_brokers() as start:
        yield start


@pytest.fixture(scope="session")
def start_session_broker(processes_allowed: None) -> Iterator[StartBroker]:
    """As ``start_broker``, for brokers that many tests share."""
    with run_brokers() as start:
        yield start


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    """The authority that issues the certificates of the proxies."""
    return CertificateAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def start_proxy(authority: CertificateAuthority) -> Iterator[StartProxy]:
    with run_proxies(authority) as start:
        yield start


@pytest.fixture(scope="session")
def apache_release(processes_allowed: None, pytestconfig: pytest.Config) -> Release:
    """The release of Apache RocketMQ to test against. Tests that use it get the marker ``apache``."""
    return choose_release(pytestconfig)


@pytest.fixture
def start_apache(apache_release: Release, tmp_path: Path) -> Iterator[StartApache]:
    """Starts clusters of Apache RocketMQ that end with the test."""
    with run_apache(apache_release, tmp_path) as start:
        yield start


@pytest.fixture(scope="session")
def apache(apache_release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    """An Apache RocketMQ of one broker that many tests share. Each test has topics and groups of its own."""
    with run_apache(apache_release, tmp_path_factory.mktemp("apache")) as start:
        yield start()


@pytest.fixture(scope="session")
def oracle(apache_release: Release) -> Iterator[JavaOracle]:
    """What Apache's own classes say about bytes."""
    with JavaOracle(apache_release) as process:
        yield process
