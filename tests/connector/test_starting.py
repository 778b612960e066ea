"""``startingOffsets``: what it may say, and where queues begin once their bounds are known."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.errors import OptionError
from pyspark_rmqpull.model import Bounds, MessageQueue
from pyspark_rmqpull.starting import StartingOffsets, parse_starting_offsets

A0, A1, B0 = (MessageQueue("orders", broker, queue_id) for broker, queue_id in (("a", 0), ("a", 1), ("b", 0)))
BOUNDS = {A0: Bounds(10, 20), A1: Bounds(0, 5), B0: Bounds(7, 7)}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("earliest", StartingOffsets("earliest")),
        ("latest", StartingOffsets("latest")),
        (" EARLIEST ", StartingOffsets("earliest")),
        ("Latest", StartingOffsets("latest")),
        ("{}", StartingOffsets()),
        ('{"orders":"earliest"}', StartingOffsets(topics={"orders": "earliest"})),
        ('{"orders":"LATEST","other":"Earliest"}', StartingOffsets(topics={"orders": "latest", "other": "earliest"})),
        ('{"orders":{"a":{"0":12,"1":"latest"}}}', StartingOffsets(queues={A0: 12, A1: "latest"})),
        ('{"orders":{"a":{"0":0},"b":{"0":"EARLIEST"}}}', StartingOffsets(queues={A0: 0, B0: "earliest"})),
        ('{"orders":{"a":{"0":9223372036854775807}}}', StartingOffsets(queues={A0: 2**63 - 1})),
        ('{"orders":{}}', StartingOffsets()),
    ],
)
def test_good_text_is_read(text: str, meant: StartingOffsets) -> None:
    assert parse_starting_offsets(text) == meant


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
        ('{"orders":{"a":5}}', "orders/a has no queue ids with offsets."),
        ('{"orders":{"a":"earliest"}}', "orders/a has no queue ids with offsets."),
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
def test_bad_text_is_refused_with_the_place_and_an_example(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match="Expected 'earliest', 'latest', or JSON such as") as refused:
        parse_starting_offsets(text)
    assert str(refused.value).startswith(complaint)


@pytest.mark.parametrize(
    ("starting", "begins"),
    [
        (StartingOffsets("earliest"), [10, 0, 7]),
        (StartingOffsets("latest"), [20, 5, 7]),
        (StartingOffsets("latest", topics={"orders": "earliest"}), [10, 0, 7]),
        (StartingOffsets("latest", queues={A0: 12, A1: "earliest"}), [12, 0, 7]),
        (StartingOffsets("latest", queues={A0: 10, A1: 5, B0: 7}), [10, 5, 7]),
        (StartingOffsets("latest", queues={A0: 20}), [20, 5, 7]),
    ],
)
def test_words_and_numbers_become_offsets(starting: StartingOffsets, begins: list[int]) -> None:
    assert starting.resolve(BOUNDS) == dict(zip((A0, A1, B0), begins, strict=True))


@pytest.mark.parametrize(
    ("queue", "offset", "complaint"),
    [
        (A0, 9, "asks for offset 9 of queue orders/a/0, which has [10, 20)."),
        (A0, 21, "asks for offset 21 of queue orders/a/0, which has [10, 20)."),
        (B0, 8, "asks for offset 8 of queue orders/b/0, which has [7, 7)."),
        (B0, 6, "asks for offset 6 of queue orders/b/0, which has [7, 7)."),
    ],
)
def test_an_offset_that_does_not_exist_is_refused(queue: MessageQueue, offset: int, complaint: str) -> None:
    with pytest.raises(OptionError) as refused:
        StartingOffsets(queues={queue: offset}).resolve(BOUNDS)
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("starting", "unknown"),
    [
        (StartingOffsets(queues={MessageQueue("orders", "a", 2): 0}), "orders/a/2"),
        (StartingOffsets(queues={MessageQueue("orders", "c", 0): "latest"}), "orders/c/0"),
        (StartingOffsets(queues={MessageQueue("other", "a", 0): 0}), "other/a/0"),
        (StartingOffsets(topics={"Orders": "earliest"}), "Orders"),
    ],
)
def test_a_name_that_is_not_read_is_refused_with_those_that_are(starting: StartingOffsets, unknown: str) -> None:
    with pytest.raises(OptionError) as refused:
        starting.resolve(BOUNDS)
    assert str(refused.value) == (
        f"Option startingOffsets names {unknown}, which this query does not read. "
        "It reads orders/a/0, orders/a/1, orders/b/0."
    )
