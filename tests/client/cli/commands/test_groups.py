"""``rmqpull groups``: which groups there are, and what they consume."""

from __future__ import annotations

import pytest

from tests.harness.cli import RunCommand, table_of

pytestmark = pytest.mark.usefixtures("a_group_that_is_behind")


def test_groups_are_listed_with_what_they_consume(run: RunCommand, servers: dict[str, str]) -> None:
    in_flight = "0" if "RMQPULL_ENDPOINTS" in servers else "-"
    assert table_of(run("groups")) == [["GROUP", "TOPICS", "LAG", "IN FLIGHT"], ["readers", "orders", "5", in_flight]]
    assert table_of(run("groups", "--names")) == [["GROUP"], ["readers"]]
