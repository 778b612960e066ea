"""Fixtures of tests of the sink."""

from __future__ import annotations

import pytest

from tests.harness.fake_producer import FakeProducer


@pytest.fixture
def producer() -> FakeProducer:
    return FakeProducer()
