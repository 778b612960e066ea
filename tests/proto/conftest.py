"""Apache's own classes as judges of the wire."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from processes.apache.oracle import JavaOracle
from processes.apache.releases import RELEASES
from processes.maven import SoftwareMissing


@pytest.fixture(scope="session", params=RELEASES)
def oracle(request: pytest.FixtureRequest, processes_allowed: None) -> Iterator[JavaOracle]:
    """The classes of each release of Apache RocketMQ, in one Java process. Skips where Maven does not have them."""
    try:
        with JavaOracle(RELEASES[request.param]) as started:
            yield started
    except SoftwareMissing as error:
        pytest.skip(f"Apache's classes are missing: {error}")
