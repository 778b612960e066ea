"""Subscriptions, and the filters that a broker keeps for them (rules 3.6, 6.1)."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from rmqpull_broker.core.clients import subscriptions
from rmqpull_broker.core.clients.subscriptions import (
    FilterTable,
    SubscriptionData,
    check_client_config,
    is_tag_type,
    make_subscription_data,
)
from rmqpull_broker.core.errors import BrokerError, FilterNotSupported, IllegalFilterExpression
from rmqpull_broker.core.filters.message_filter import SQL92, TAG, MessageFilter, TagFilter

DAY_MS = 86_400_000


def sql(expression: str, version: int, topic: str = "orders", expression_type: str = SQL92) -> SubscriptionData:
    return SubscriptionData(topic, expression, version, expression_type)


def compile_good(expression_type: str, expression: str) -> MessageFilter:
    """Stands in for the compiler: whatever begins with 'bad' is malformed."""
    if expression.startswith("bad"):
        raise IllegalFilterExpression(expression)
    return TagFilter(frozenset({expression_type, expression}))


@pytest.fixture
def table() -> FilterTable:
    return FilterTable(compile_good)


@pytest.mark.parametrize(
    ("expression_type", "expression", "tags"),
    [
        (TAG, "*", set()),
        (TAG, "", set()),
        (TAG, "red || blue", {"red", "blue"}),
        ("", "red", {"red"}),
        (SQL92, "a || b", set()),
    ],
)
def test_a_tag_expression_is_taken_apart(expression_type: str, expression: str, tags: set[str]) -> None:
    made = make_subscription_data("orders", expression_type, expression, 7)
    assert made == SubscriptionData("orders", expression, 7, expression_type or TAG, frozenset(tags))


def test_bars_alone_are_no_tags() -> None:
    with pytest.raises(IllegalFilterExpression):
        make_subscription_data("orders", TAG, "||", 7)


@pytest.mark.parametrize(("expression_type", "is_tag"), [("", True), ("TAG", True), ("tag", False), ("SQL92", False)])
def test_the_empty_type_is_tag(expression_type: str, is_tag: bool) -> None:
    assert is_tag_type(expression_type) is is_tag


# The heartbeats of a group in order, and the filter that a pull finds then: expression, version, is it unused.
HEARTBEATS: dict[str, tuple[list[list[SubscriptionData]], tuple[str, int, bool] | None]] = {
    "a filter": ([[sql("a", 1)]], ("a", 1, False)),
    "a newer filter": ([[sql("a", 1)], [sql("b", 2)]], ("b", 2, False)),
    "the same, newer": ([[sql("a", 1)], [sql("a", 2)]], ("a", 2, False)),
    "an older one": ([[sql("a", 2)], [sql("b", 1)]], ("a", 2, False)),
    "another one as old": ([[sql("a", 2)], [sql("b", 2)]], ("a", 2, False)),
    "newer but malformed": ([[sql("a", 1)], [sql("bad", 2)]], None),
    "older and malformed": ([[sql("a", 2)], [sql("bad", 1)]], ("a", 2, False)),
    "malformed at once": ([[sql("bad", 1)]], None),
    "newer but empty": ([[sql("a", 1)], [sql("", 2)]], ("a", 1, False)),
    "empty at once": ([[sql("", 1)]], None),
    "now a tag": ([[sql("a", 1)], [sql("red", 2, expression_type=TAG)]], ("a", 1, False)),
    "a tag": ([[sql("red", 1, expression_type=TAG)]], None),
    "another type": ([[sql("a", 1)], [sql("a", 2, expression_type="X")]], ("a", 2, False)),
    "no longer wanted": ([[sql("a", 1)], []], ("a", 1, True)),
    "wanted again": ([[sql("a", 1)], [], [sql("a", 1)]], ("a", 1, False)),
    "wanted again, newer": ([[sql("a", 1)], [], [sql("a", 2)]], ("a", 2, False)),
    "wanted again, older": ([[sql("a", 2)], [], [sql("a", 1)]], ("a", 2, True)),
}


@pytest.mark.parametrize(("heartbeats", "found"), HEARTBEATS.values(), ids=HEARTBEATS)
def test_what_a_pull_finds_after_heartbeats(
    table: FilterTable, heartbeats: list[list[SubscriptionData]], found: tuple[str, int, bool] | None
) -> None:
    for now_ms, heartbeat in enumerate(heartbeats):
        table.register("readers", heartbeat, now_ms)
    data = table.get("readers", "orders")
    seen = None if data is None else (data.expression, data.client_version, data.dead_since_ms is not None)
    assert seen == found
    if data is not None:
        assert data.compiled == TagFilter(frozenset({data.expression_type, data.expression}))


def test_filters_are_compiled_as_pulls_compile_theirs() -> None:
    table = FilterTable()
    table.register("readers", [sql("a > 1", 1), sql("a >", 1, "clicks"), sql("a", 1, "others", "sql92")], 0)
    found = [table.get("readers", topic) is not None for topic in ("orders", "clicks", "others")]
    assert found == [True, False, False]


def test_filters_are_kept_by_group_and_topic(table: FilterTable) -> None:
    table.register("readers", [sql("a", 1), sql("b", 1, "clicks")], 0)
    table.register("others", [sql("c", 1)], 0)
    found = [
        table.get(group, topic) for group, topic in (("readers", "orders"), ("readers", "clicks"), ("others", "orders"))
    ]
    assert [data.expression if data else None for data in found] == ["a", "b", "c"]
    assert table.get("others", "clicks") is None


def test_a_group_without_members_leaves_dead_filters_for_a_day(table: FilterTable) -> None:
    table.register("readers", [sql("a", 1), sql("b", 1, "clicks")], 0)
    table.register("others", [sql("c", 1)], 0)
    table.unregister("readers", 500)
    table.forget_dead(500 + DAY_MS - 1)
    assert len(table) == 3
    table.forget_dead(500 + DAY_MS)
    assert len(table) == 1
    assert table.get("readers", "orders") is None


def test_beyond_the_limit_the_oldest_filter_is_forgotten(table: FilterTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "FILTERS_MAX", 2)
    table.register("readers", [sql("a", 1)], 0)
    table.register("others", [sql("b", 1), sql("c", 1, "clicks")], 0)
    assert len(table) == 2
    assert table.get("readers", "orders") is None


@pytest.mark.parametrize(
    ("kind", "expression", "enabled", "error"),
    [
        ("TAG", "||", False, None),
        ("", "a", False, None),
        (SQL92, "a > 3", True, None),
        (SQL92, "a > 3", False, FilterNotSupported),
        (SQL92, "a >", True, IllegalFilterExpression),
        ("other", "a", True, IllegalFilterExpression),
    ],
)
def test_a_subscription_is_judged_before_it_is_used(
    kind: str, expression: str, enabled: bool, error: type[BrokerError] | None
) -> None:
    with nullcontext() if error is None else pytest.raises(error):
        check_client_config(kind, expression, enable_property_filter=enabled)
