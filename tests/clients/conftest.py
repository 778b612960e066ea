"""Each scenario of this folder runs on each server and with each release of Apache's Java clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from processes.apache.releases import CLIENT_RELEASES
from tests.harness.apache import choose_release
from tests.harness.client_servers import SERVERS, ClientServers, Place

SMALL = "emulator-5.5"
"""The server and the release of those scenarios that `make test` runs too."""
FOLDER = f"{Path(__file__).parent}/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if str(item.path).startswith(FOLDER):  # a comparison of paths takes a second for all tests
            item.add_marker("clients")
            if runs_on_apache(item):
                item.add_marker("nightly")
            if item.get_closest_marker("small") and f"[{SMALL}" in item.name:
                item.add_marker("clients_small")


def runs_on_apache(item: pytest.Item) -> bool:
    """A real server shows that a scenario is right. It changes only with the scenario, so a night is soon enough."""
    call = getattr(item, "callspec", None)
    values = [] if call is None else list(call.params.values())
    return any("apache" in value if isinstance(value, tuple) else value == "apache" for value in values)


@pytest.fixture(scope="session")
def client_servers(
    processes_allowed: None, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClientServers]:
    servers = ClientServers(tmp_path_factory.mktemp("clients"), choose_release(pytestconfig))
    try:
        yield servers
    finally:
        servers.close()


@pytest.fixture(
    params=[pytest.param((kind, release), id=f"{kind}-{release}") for kind in SERVERS for release in CLIENT_RELEASES]
)
def place(client_servers: ClientServers, request: pytest.FixtureRequest) -> Iterator[Place]:
    """Topics and groups of one scenario, on one server, and its clients of one release."""
    place = Place(client_servers, *request.param)
    try:
        yield place
    finally:
        place.close()
