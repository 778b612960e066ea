"""Each scenario of this folder runs with Apache's gRPC clients of each language and on each server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from processes.grpc_clients.lacks import LACKS, Language
from processes.maven import SoftwareMissing
from tests.clients.programs.grpc.clients import LANGUAGES
from tests.harness.apache import choose_release
from tests.harness.client_servers import SERVERS, ServerKind
from tests.harness.grpc_servers import GrpcPlace, GrpcServers

SMALL = "python-emulator"
"""The language and the server of those scenarios that `make test` runs too: all that are not `long`."""
LANGUAGE_OF_LONG = "java"
"""The language of those `long` scenarios that run before a merge. They show rules of servers, not of languages."""
FOLDER = f"{Path(__file__).parent}/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not str(item.path).startswith(FOLDER):
            continue
        if f"[{SMALL}" in item.name and not is_long(item):
            item.add_marker("clients_small")
        if is_long(item) and language_of(item) not in (LANGUAGE_OF_LONG, None):
            item.add_marker("nightly")


def language_of(item: pytest.Item) -> str | None:
    """The language of a scenario that runs in several."""
    call = getattr(item, "callspec", None)
    place = call.params.get("place") if call else None
    return place[0] if place else None


def is_long(item: pytest.Item) -> bool:
    return item.get_closest_marker("long") is not None


@pytest.fixture(scope="session")
def grpc_servers(
    processes_allowed: None, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GrpcServers]:
    servers = GrpcServers(tmp_path_factory.mktemp("grpc"), lambda: choose_release(pytestconfig))
    try:
        yield servers
    finally:
        servers.close()


@pytest.fixture(
    params=[pytest.param((language, kind), id=f"{language}-{kind}") for language in LANGUAGES for kind in SERVERS]
)
def place(grpc_servers: GrpcServers, request: pytest.FixtureRequest) -> Iterator[GrpcPlace]:
    """Topics and groups of one scenario, on one server, and its clients in one language."""
    language: Language
    kind: ServerKind
    language, kind = request.param
    for call in (call for marker in request.node.iter_markers("uses") for call in marker.args):
        if (language, call) in LACKS:
            pytest.skip(f"{language} has no {call}: {LACKS[language, call]}")
    try:
        place = GrpcPlace(grpc_servers, language, kind)
    except SoftwareMissing as missing:
        pytest.skip(f"{missing}.")
    try:
        yield place
    finally:
        place.close()
