"""Fixtures of tests of the core."""

from __future__ import annotations

import pytest

from tests.harness.core import CoreHarness


@pytest.fixture
def core() -> CoreHarness:
    return CoreHarness()
