"""Containers of the image that ``make test-docker`` builds."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from testcontainers.core.config import testcontainers_config
from testcontainers.core.docker_client import DockerClient

from rmqpull_broker.testcontainers import RocketMQEmulatorContainer
from tests.harness.containers import IMAGE, ContainerClient, StartContainer, missing


@pytest.fixture(scope="session")
def engine(processes_allowed: None) -> Any:
    """The client of the Docker engine. Without an engine or the image, its tests are skipped."""
    # These tests stop what they start, so they do not need the image that would clean up after them.
    testcontainers_config.ryuk_disabled = True
    if reason := missing(lambda: DockerClient().client):
        pytest.skip(reason)
    return DockerClient().client


@pytest.fixture(scope="session")
def host_network(engine: Any) -> bool:
    """Whether the engine has no bridge network."""
    return "bridge" not in {network.name for network in engine.networks.list()}


@pytest.fixture
def container(host_network: bool) -> StartContainer:
    """Makes containers of the image, with the arguments of RocketMQEmulatorContainer. The test starts them."""

    def make(**arguments: Any) -> RocketMQEmulatorContainer:
        return RocketMQEmulatorContainer(IMAGE, host_network=host_network, **arguments)

    return make


@pytest.fixture
def volume(engine: Any) -> Iterator[str]:
    """The name of a volume that is removed after the test."""
    name = f"rmqpull-test-{uuid.uuid4().hex}"
    yield name
    engine.volumes.get(name).remove()


@pytest.fixture
def connect() -> Iterator[Callable[[str], ContainerClient]]:
    """Makes clients. Their channels are closed after the test."""
    with ExitStack() as channels:

        def open_client(endpoints: str) -> ContainerClient:
            client = ContainerClient(endpoints)
            channels.callback(client.channel.close)
            return client

        yield open_client
