"""Offset specs in JSON, as users write them (rules 8.6)."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.options.json_parsers import (
    parse_ending_offsets,
    parse_offsets_by_timestamp,
    parse_starting_default,
    parse_starting_offsets,
    parse_timestamp_of_all,
)
from pyspark_rmqpull.planning.offset_specs import ALL_QUEUES, AtTime, OffsetSpec, OffsetSpecs, Scope
from rmqpull_client.model import MessageQueue

A0, A1, B0 = (MessageQueue("orders", broker, queue_id) for broker, queue_id in (("a", 0), ("a", 1), ("b", 0)))
ORDERS: Scope = ("orders",)
NOON = AtTime(1_772_366_400_000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("earliest", {ALL_QUEUES: "earliest"}),
        ("latest", {ALL_QUEUES: "latest"}),
        ("group", {ALL_QUEUES: "group"}),
        (" EARLIEST ", {ALL_QUEUES: "earliest"}),
        ("Latest", {ALL_QUEUES: "latest"}),
        ("{}", {}),
        ('{"orders":"earliest"}', {ORDERS: "earliest"}),
        ('{"orders":"LATEST","other":"Group"}', {ORDERS: "latest", ("other",): "group"}),
        ('{"orders":{"a":{"0":12,"1":"latest"}}}', {A0: 12, A1: "latest"}),
        ('{"orders":{"a":{"0":0},"b":{"0":"EARLIEST"}}}', {A0: 0, B0: "earliest"}),
        ('{"orders":{"a":{"0":9223372036854775807}}}', {A0: 2**63 - 1}),
        ('{"orders":{}}', {}),
    ],
)
def test_starting_offsets_are_read(text: str, said: dict[Scope, OffsetSpec]) -> None:
    """Acceptance case 37: words in any case."""
    assert parse_starting_offsets(text) == OffsetSpecs(said)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "It is neither a known word nor valid JSON"),
        ("newest", "It is neither a known word nor valid JSON"),
        ('{"orders":', "It is neither a known word nor valid JSON"),
        ("[" * 100_000, "It is neither a known word nor valid JSON"),
        ("12", "It is not a JSON object."),
        ('"earliest"', "It is not a JSON object."),
        ('["orders"]', "It is not a JSON object."),
        ("null", "It is not a JSON object."),
        ('{"orders":5}', "orders is set to 5."),
        ('{"orders":null}', "orders is set to null."),
        ('{"orders":"newest"}', 'orders is set to "newest".'),
        ('{"orders":{"a":5}}', "orders/a is not an object with a value for each queue id."),
        ('{"orders":{"a":"earliest"}}', "orders/a is not an object with a value for each queue id."),
        ('{"orders":{"a":{"x":5}}}', "orders/a has queue id 'x', not one such as 0 or 12."),
        ('{"orders":{"a":{"-1":5}}}', "orders/a has queue id '-1', not one such as 0 or 12."),
        ('{"orders":{"a":{"":5}}}', "orders/a has queue id '', not one such as 0 or 12."),
        ('{"orders":{"a":{"²":5}}}', "orders/a has queue id '²', not one such as 0 or 12."),
        ('{"orders":{"a":{"0":-1}}}', "orders/a/0 is set to -1."),
        ('{"orders":{"a":{"0":1.5}}}', "orders/a/0 is set to 1.5."),
        ('{"orders":{"a":{"0":true}}}', "orders/a/0 is set to true."),
        ('{"orders":{"a":{"0":"12"}}}', 'orders/a/0 is set to "12".'),
        ('{"orders":{"a":{"0":null}}}', "orders/a/0 is set to null."),
        ('{"orders":"earliest","orders":"latest"}', "It names 'orders' twice."),
        ('{"orders":{"a":{"0":1,"0":2}}}', "It names '0' twice."),
        ('{"orders":{"a":{"0":1,"00":2}}}', "orders/a has queue id '00', not one such as 0 or 12."),
    ],
)
def test_bad_starting_offsets_are_refused_with_the_place_and_an_example(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match="Expected 'earliest', 'latest', 'group', or JSON such as") as refused:
        parse_starting_offsets(text)
    assert str(refused.value).startswith(complaint)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("latest", {ALL_QUEUES: "latest"}),
        ('{"orders":"latest"}', {ORDERS: "latest"}),
        ('{"orders":{"a":{"0":12,"1":"LATEST"}}}', {A0: 12, A1: "latest"}),
    ],
)
def test_ending_offsets_are_read(text: str, said: dict[Scope, OffsetSpec]) -> None:
    assert parse_ending_offsets(text) == OffsetSpecs(said)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("earliest", "It is neither a known word nor valid JSON"),
        ("group", "It is neither a known word nor valid JSON"),
        ('{"orders":"earliest"}', 'orders is set to "earliest".'),
        ('{"orders":{"a":{"0":"earliest"}}}', 'orders/a/0 is set to "earliest".'),
        ('{"orders":{"a":{"0":-2}}}', "orders/a/0 is set to -2."),
    ],
)
def test_a_read_cannot_end_at_earliest_or_group(text: str, complaint: str) -> None:
    """Acceptance case 52."""
    with pytest.raises(ValueError, match="Expected 'latest', or JSON such as") as refused:
        parse_ending_offsets(text)
    assert str(refused.value).startswith(complaint)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"orders":"2026-03-01T12:00:00Z"}', {ORDERS: NOON}),
        ('{"orders":1772366400000}', {ORDERS: NOON}),
        ('{"orders":"1772366400000"}', {ORDERS: NOON}),
        ('{"orders":{"a":{"0":1772366400000,"1":"1970-01-01"}}}', {A0: NOON, A1: AtTime(0)}),
        ("{}", {}),
    ],
)
def test_times_are_read_per_topic_or_queue(text: str, said: dict[Scope, OffsetSpec]) -> None:
    assert parse_offsets_by_timestamp(text) == OffsetSpecs(said)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1772366400000", "It is not a JSON object."),
        ("2026-03-01", "It is not valid JSON ("),
        ('{"orders":"latest"}', 'orders is set to "latest".'),
        ('{"orders":true}', "orders is set to true."),
        ('{"orders":{"a":{"0":-1}}}', "orders/a/0 is set to -1."),
        ('{"orders":{"a":{"0":1.5}}}', "orders/a/0 is set to 1.5."),
        ('{"orders":{"a":1}}', "orders/a is not an object with a value for each queue id."),
    ],
)
def test_bad_times_are_refused_with_the_place_and_an_example(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=r"Expected JSON such as .* in ISO 8601 or in milliseconds") as refused:
        parse_offsets_by_timestamp(text)
    assert str(refused.value).startswith(complaint)


def test_one_time_or_one_word_applies_to_all_queues() -> None:
    assert parse_timestamp_of_all("2026-03-01T12:00:00Z") == OffsetSpecs({ALL_QUEUES: NOON})
    assert parse_starting_default(" Earliest ") == OffsetSpecs({ALL_QUEUES: "earliest"})
    with pytest.raises(ValueError, match="Expected 'earliest', 'latest' or 'group'"):
        parse_starting_default("{}")
