"""Fixtures of the stories that an emulator and a real broker must answer alike."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from processes.apache.cluster import ApacheCluster
from processes.apache.releases import RELEASE_5, Release
from rmqpull_broker.testing import running_broker
from tests.differential.both import Both
from tests.differential.runner import LIKE_APACHE, Address, Run
from tests.differential.send_steps import begin


@pytest.fixture(scope="module")
def emulator() -> Iterator[Address]:
    with running_broker(remoting=True, properties=LIKE_APACHE) as broker:
        (address,) = broker.remoting_addresses
        yield Address(address, address)


@pytest.fixture
def both(emulator: Address, apache: ApacheCluster, apache_release: Release) -> Iterator[Both]:
    if apache_release is not RELEASE_5:
        pytest.skip("the emulator answers as a broker of 5.5")
    real = Address(apache.addresses, apache.brokers[0].address, is_late=True)
    own = f"d{uuid.uuid4().hex[:10]}"
    with Run(emulator, own) as mine, Run(real, own) as theirs:
        servers = Both(own, {"emulator": mine, "apache": theirs})
        servers.do(begin("orders"))
        yield servers
