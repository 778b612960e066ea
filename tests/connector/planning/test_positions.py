"""What options may say of begins and ends, and which of them counts (rules 8.6)."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.planning.positions import (
    EVERYTHING,
    AtTime,
    Place,
    Position,
    Positions,
    Ranked,
    parse_ending_offsets,
    parse_offsets_by_timestamp,
    parse_starting_default,
    parse_starting_offsets,
    parse_timestamp_of_everything,
)
from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue

A0, A1, B0 = (MessageQueue("orders", broker, queue_id) for broker, queue_id in (("a", 0), ("a", 1), ("b", 0)))
ORDERS: Place = ("orders",)
NOON = AtTime(1_772_366_400_000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("earliest", {EVERYTHING: "earliest"}),
        ("latest", {EVERYTHING: "latest"}),
        ("group", {EVERYTHING: "group"}),
        (" EARLIEST ", {EVERYTHING: "earliest"}),
        ("Latest", {EVERYTHING: "latest"}),
        ("{}", {}),
        ('{"orders":"earliest"}', {ORDERS: "earliest"}),
        ('{"orders":"LATEST","other":"Group"}', {ORDERS: "latest", ("other",): "group"}),
        ('{"orders":{"a":{"0":12,"1":"latest"}}}', {A0: 12, A1: "latest"}),
        ('{"orders":{"a":{"0":0},"b":{"0":"EARLIEST"}}}', {A0: 0, B0: "earliest"}),
        ('{"orders":{"a":{"0":9223372036854775807}}}', {A0: 2**63 - 1}),
        ('{"orders":{}}', {}),
    ],
)
def test_starting_offsets_are_read(text: str, said: dict[Place, Position]) -> None:
    """Acceptance case 37: words in any case."""
    assert parse_starting_offsets(text) == Positions(said)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "It is neither a word it knows nor JSON"),
        ("newest", "It is neither a word it knows nor JSON"),
        ('{"orders":', "It is neither a word it knows nor JSON"),
        ("[" * 100_000, "It is neither a word it knows nor JSON"),
        ("12", "It is no JSON object."),
        ('"earliest"', "It is no JSON object."),
        ('["orders"]', "It is no JSON object."),
        ("null", "It is no JSON object."),
        ('{"orders":5}', "orders is set to 5."),
        ('{"orders":null}', "orders is set to null."),
        ('{"orders":"newest"}', 'orders is set to "newest".'),
        ('{"orders":{"a":5}}', "orders/a has no queue ids with what is wanted of them."),
        ('{"orders":{"a":"earliest"}}', "orders/a has no queue ids with what is wanted of them."),
        ('{"orders":{"a":{"x":5}}}', "orders/a has queue id 'x', not one like 0 or 12."),
        ('{"orders":{"a":{"-1":5}}}', "orders/a has queue id '-1', not one like 0 or 12."),
        ('{"orders":{"a":{"":5}}}', "orders/a has queue id '', not one like 0 or 12."),
        ('{"orders":{"a":{"²":5}}}', "orders/a has queue id '²', not one like 0 or 12."),
        ('{"orders":{"a":{"0":-1}}}', "orders/a/0 is set to -1."),
        ('{"orders":{"a":{"0":1.5}}}', "orders/a/0 is set to 1.5."),
        ('{"orders":{"a":{"0":true}}}', "orders/a/0 is set to true."),
        ('{"orders":{"a":{"0":"12"}}}', 'orders/a/0 is set to "12".'),
        ('{"orders":{"a":{"0":null}}}', "orders/a/0 is set to null."),
        ('{"orders":"earliest","orders":"latest"}', "It names 'orders' twice."),
        ('{"orders":{"a":{"0":1,"0":2}}}', "It names '0' twice."),
        ('{"orders":{"a":{"0":1,"00":2}}}', "orders/a has queue id '00', not one like 0 or 12."),
    ],
)
def test_bad_starting_offsets_are_refused_with_the_place_and_an_example(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match="Expected 'earliest', 'latest', 'group', or JSON such as") as refused:
        parse_starting_offsets(text)
    assert str(refused.value).startswith(complaint)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("latest", {EVERYTHING: "latest"}),
        ('{"orders":"latest"}', {ORDERS: "latest"}),
        ('{"orders":{"a":{"0":12,"1":"LATEST"}}}', {A0: 12, A1: "latest"}),
    ],
)
def test_ending_offsets_are_read(text: str, said: dict[Place, Position]) -> None:
    assert parse_ending_offsets(text) == Positions(said)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("earliest", "It is neither a word it knows nor JSON"),
        ("group", "It is neither a word it knows nor JSON"),
        ('{"orders":"earliest"}', 'orders is set to "earliest".'),
        ('{"orders":{"a":{"0":"earliest"}}}', 'orders/a/0 is set to "earliest".'),
        ('{"orders":{"a":{"0":-2}}}', "orders/a/0 is set to -2."),
    ],
)
def test_an_end_at_the_begin_is_refused_with_the_queue(text: str, complaint: str) -> None:
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
def test_times_are_read_per_topic_or_queue(text: str, said: dict[Place, Position]) -> None:
    assert parse_offsets_by_timestamp(text) == Positions(said)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1772366400000", "It is no JSON object."),
        ("2026-03-01", "It is no JSON ("),
        ('{"orders":"latest"}', 'orders is set to "latest".'),
        ('{"orders":true}', "orders is set to true."),
        ('{"orders":{"a":{"0":-1}}}', "orders/a/0 is set to -1."),
        ('{"orders":{"a":{"0":1.5}}}', "orders/a/0 is set to 1.5."),
        ('{"orders":{"a":1}}', "orders/a has no queue ids with what is wanted of them."),
    ],
)
def test_bad_times_are_refused_with_the_place_and_an_example(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=r"Expected JSON such as .* in ISO 8601 or in milliseconds") as refused:
        parse_offsets_by_timestamp(text)
    assert str(refused.value).startswith(complaint)


def test_one_time_or_one_word_is_for_everything() -> None:
    assert parse_timestamp_of_everything("2026-03-01T12:00:00Z") == Positions({EVERYTHING: NOON})
    assert parse_starting_default(" Earliest ") == Positions({EVERYTHING: "earliest"})
    with pytest.raises(ValueError, match="Expected 'earliest', 'latest' or 'group'"):
        parse_starting_default("{}")


def test_a_queue_counts_before_its_topic_and_that_before_everything() -> None:
    positions = Positions({EVERYTHING: "latest", ORDERS: "earliest", A0: 12})
    found = [positions.of(place) for place in (A0, A1, ORDERS, MessageQueue("other", "a", 0), EVERYTHING)]
    assert found == [12, "earliest", "earliest", "latest", "latest"]
    assert Positions({A0: 12}).of(A1) is None


OPTIONS = {
    "time": Positions({EVERYTHING: NOON}),
    "times": Positions({A0: AtTime(5)}),
    "offsets": Positions({A0: 12, A1: 7}),
    "default": Positions({EVERYTHING: "latest"}),
}


@pytest.mark.parametrize(
    ("names", "counts"),
    [
        (["time", "times", "offsets", "default"], [("time", NOON)] * 3),
        (["times", "offsets", "default"], [("times", AtTime(5)), ("offsets", 7), ("default", "latest")]),
        (["offsets", "default"], [("offsets", 12), ("offsets", 7), ("default", "latest")]),
        (["default"], [("default", "latest")] * 3),
    ],
)
def test_the_highest_rank_that_names_a_queue_counts(names: list[str], counts: list[tuple[str, Position]]) -> None:
    """Acceptance case 49; a queue that a rank does not name follows the next one."""
    ranked = Ranked({name: OPTIONS[name] for name in names})
    assert [ranked.of(queue) for queue in (A0, A1, B0)] == counts


@pytest.mark.parametrize(
    ("said", "unknown"),
    [
        ({MessageQueue("orders", "a", 2): 0}, "orders/a/2"),
        ({MessageQueue("orders", "c", 0): "latest"}, "orders/c/0"),
        ({MessageQueue("other", "a", 0): NOON}, "other/a/0"),
        ({("Orders",): "earliest"}, "Orders"),
    ],
)
def test_a_name_that_is_not_read_is_refused_with_those_that_are(said: dict[Place, Position], unknown: str) -> None:
    """Acceptance case 59: a subset may be named, but nothing that does not exist."""
    with pytest.raises(OptionError) as refused:
        Ranked({"startingOffsets": Positions({A0: 0, ORDERS: "latest", **said})}).refuse_unknown([A0, A1, B0])
    assert str(refused.value) == (
        f"Option startingOffsets names {unknown}, which this query does not read. "
        "It reads orders/a/0, orders/a/1, orders/b/0."
    )
