"""Properties that the server cannot carry are dropped, one by one, and counted."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqpull.sink.uncarried_properties import DroppedProperties, find_rows_with_uncarried
from rmqpull_client.transports.property_rules import (
    KEPT_BY_BROKERS,
    KEPT_BY_PROXIES,
    KEPT_IN_COLUMNS,
    PropertyRules,
)
from rmqpull_proto.columns import PROPERTIES

Entries = list[tuple[str, str | None]] | None


def maps_of(*rows: Entries) -> pa.MapArray:
    return pa.array(rows, PROPERTIES)


@pytest.mark.parametrize(
    ("rules", "given", "kept"),
    [
        (KEPT_BY_BROKERS, ("a", "b\x01c"), True),
        (KEPT_BY_BROKERS, ("a", "b\x02c"), False),
        (KEPT_BY_BROKERS, ("a", "b\nc"), True),
        (KEPT_BY_BROKERS, ("a\x01", "b"), False),
        (KEPT_BY_BROKERS, ("a\n", "b"), True),
        (KEPT_BY_BROKERS, ("a", ""), False),
        (KEPT_BY_BROKERS, ("", "b"), False),
        (KEPT_BY_BROKERS, ("a", None), False),
        (KEPT_BY_BROKERS, ("INNER_MULTI_DISPATCH", "b"), False),
        (KEPT_BY_BROKERS, ("__SHARDINGKEY", "b"), True),
        (KEPT_BY_PROXIES, ("a", "b\x01c"), False),
        (KEPT_BY_PROXIES, ("a", "b\nc"), False),
        (KEPT_BY_PROXIES, ("a\x7f", "b"), False),
        (KEPT_BY_PROXIES, ("a", "\u0085"), False),
        (KEPT_BY_PROXIES, ("a", "\u00a3"), True),
        (KEPT_BY_PROXIES, ("a", ""), False),
        (KEPT_IN_COLUMNS, ("a", ""), True),
        (KEPT_IN_COLUMNS, ("a", "b\x01c"), False),
        (KEPT_BY_PROXIES, ("a", None), False),
        (KEPT_BY_PROXIES, ("__LITE_TOPIC", "b"), False),
    ],
)
def test_only_the_property_that_cannot_be_carried_is_dropped(
    rules: PropertyRules, given: tuple[str, str | None], kept: bool
) -> None:
    others: list[tuple[str, str | None]] = [("k", "v"), ("l", "w")]
    dropped = DroppedProperties(rules)
    maps = maps_of([("first", "1"), given], others, None, [given], [*others, given, *others], [])
    for begin in range(2):  # a slice has no more than it shows
        own = [given] if kept else []
        expected = [[("first", "1"), *own], others, None, own, [*others, *own, *others], []]
        assert dropped.drop_uncarried(maps.slice(begin)).to_pylist() == expected[begin:]
    assert dropped.count == (0 if kept else 3 + 2)


NAMES, VALUES = st.text("aK\x01\x02\n", max_size=2), st.none() | st.text("b\x01\x02\n", max_size=2)


@given(st.lists(st.none() | st.dictionaries(NAMES | st.just("KEYS"), VALUES, max_size=3), max_size=6))
@pytest.mark.parametrize("rules", [KEPT_BY_BROKERS, KEPT_BY_PROXIES])
def test_after_dropping_all_rows_are_valid_and_those_without_losses_were(
    rules: PropertyRules, rows: list[dict[str, str | None] | None]
) -> None:
    maps = maps_of(*(None if row is None else list(row.items()) for row in rows))
    kept = DroppedProperties(rules).drop_uncarried(maps)
    assert list(find_rows_with_uncarried(kept, rules)) == []
    invalid = {row for mask, _ in find_rows_with_uncarried(maps, rules) for row, bad in enumerate(mask) if bad.as_py()}
    assert invalid == {
        row
        for row, (before, after) in enumerate(zip(maps.to_pylist(), kept.to_pylist(), strict=True))
        if before != after
    }


def test_a_task_logs_one_line_with_the_number_and_the_first_reason(caplog: pytest.LogCaptureFixture) -> None:
    dropped = DroppedProperties(KEPT_BY_PROXIES)
    dropped.drop_uncarried(maps_of([("a", "b")]))
    dropped.log_dropped_count()
    for _ in range(50):
        dropped.drop_uncarried(maps_of([("a", "b"), ("DELAY", "3")], [("c", "\n"), ("KEYS", "\n")]))
    with caplog.at_level(logging.WARNING):
        dropped.log_dropped_count()
    assert caplog.messages == ["This task dropped 150 properties, the first because property DELAY is RocketMQ's own"]
