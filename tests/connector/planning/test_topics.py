"""Which topics and queues a query selects."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.planning.topics import TopicSelection
from rmqpull_client.model import MessageQueue


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("orders-.*", ["orders-a", "orders-b"]),
        ("orders", ["orders"]),  # the whole name counts
        ("orders|sales", ["orders", "sales"]),
        (".*", ["orders", "orders-a", "orders-b", "sales"]),
        ("%RETRY%.*", ["%RETRY%g"]),
        ("nobody", []),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, matching: list[str]) -> None:
    names = ["sales", "orders-b", "orders", "orders-a", "%RETRY%g", "%DLQ%g"]
    assert TopicSelection(pattern=pattern).match(names) == matching


A0, A1, B0 = MessageQueue("a", "x", 0), MessageQueue("a", "x", 1), MessageQueue("b", "x", 0)


@pytest.mark.parametrize(
    ("selection", "covered"),
    [
        (TopicSelection(names=("a",)), [A0, A1]),
        (TopicSelection(names=("a", "b")), [A0, A1, B0]),
        (TopicSelection(pattern="[ab]"), [A0, A1, B0]),
        (TopicSelection(pattern="b.*"), [B0]),
        (TopicSelection(queues=frozenset({A1, B0})), [A1, B0]),
    ],
)
def test_what_is_covered(selection: TopicSelection, covered: list[MessageQueue]) -> None:
    assert [queue for queue in (A0, A1, B0) if selection.covers(queue)] == covered


def test_names_that_must_exist() -> None:
    assert TopicSelection(names=("b", "a")).required_names == ["b", "a"]
    assert TopicSelection(queues=frozenset({A1, A0, B0})).required_names == ["a", "b"]
