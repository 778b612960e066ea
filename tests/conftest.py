"""Fixtures of all tests, the settings of Spark and Hypothesis, and the order in which tests run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.harness.broker_processes import StartBroker, run_brokers
from tests.harness.process_guard import ProcessGuard
from tests.harness.secured_proxy import CertificateAuthority, StartProxy, run_proxies
from tests.harness.spark_settings import spark_environment

# No test asserts a time, also not that of one example of a property.
settings.register_profile("rmqpull", deadline=None)


# For make test-fast, where examples of properties would take most of the time.
settings.register_profile("fast", deadline=None, max_examples=10)


settings.load_profile("rmqpull")


TESTS = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ProcessGuard(), "process_guard")


@pytest.fixture(scope="session")
def processes_allowed() -> None:
    """For fixtures that start processes: their tests get the marker ``processes``."""


LONGEST_FIRST = ("soak", "bench", "integration")


RUN_AGAIN = pytest.mark.flaky(
    reruns=1,
    only_rerun=[
        "Python worker failed to connect back\\.",
        "does not serve PullColumns\\. If it was restarted with other extensions",
    ],
)
"""Only two failures are run again. The first is Spark's own, when a JVM or a Python process stands still for 10 s while
one starts the other. The second comes when a broker gets the port that an earlier test's broker had: Spark's Python
workers live on, and remember that one's extensions until they are told so.

Only tests that start processes have the mark. Where several processes share the tests it costs each 40 ms of waiting.
"""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first, so that two processes that share all files end at nearly the same time."""
    for item in items:
        if item.get_closest_marker("processes"):
            item.add_marker(RUN_AGAIN)

    def place(item: pytest.Item) -> int:
        places = (place for place, folder in enumerate(LONGEST_FIRST) if TESTS / folder in item.path.parents)
        return next(places, len(LONGEST_FIRST))

    items.sort(key=place)


@pytest.fixture(scope="session", autouse=True)
def _spark_environment() -> Iterator[None]:
    """Every Spark that a test starts has the settings of the tests, wherever it is started."""
    with (
        tempfile.TemporaryDirectory(prefix="rmqpull-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as environment,
    ):
        for name, value in spark_environment(Path(folder)).items():
            environment.setenv(name, value)
        yield


@pytest.fixture
def start_broker(processes_allowed: None) -> Iterator[StartBroker]:
    """Starts broker processes, and ends them after the test."""
    with run_brokers() as start:
        yield start


@pytest.fixture(scope="session")
def start_session_broker(processes_allowed: None) -> Iterator[StartBroker]:
    """As ``start_broker``, for brokers that many tests share."""
    with run_brokers() as start:
        yield start


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    """Whom the proxies of the tests have their certificates from."""
    return CertificateAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def start_proxy(authority: CertificateAuthority) -> Iterator[StartProxy]:
    with run_proxies(authority) as start:
        yield start
