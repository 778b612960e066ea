"""A wait is split into parked pulls."""

from __future__ import annotations

import pytest

from rmqpull_client.flow import Flow


@pytest.mark.parametrize(
    ("wait_ms", "parked_ms"),
    [(0, []), (500, [500]), (20_000, [20_000]), (20_001, [20_000, 1]), (45_000, [20_000, 20_000, 5_000])],
)
def test_no_pull_is_parked_longer_than_the_polling_timeout(wait_ms: int, parked_ms: list[int]) -> None:
    assert Flow().split_wait(wait_ms) == parked_ms
