"""Which topics and queues are meant."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.planning.selection import TopicSelection, parse_assign, parse_pattern, parse_topics
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
    assert TopicSelection(pattern=pattern).matching(names) == matching


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
    assert TopicSelection(names=("b", "a")).wanted_names == ["b", "a"]
    assert TopicSelection(queues=frozenset({A1, A0, B0})).wanted_names == ["a", "b"]


def test_topics_have_commas_between() -> None:
    assert parse_topics(" orders ,sales") == ("orders", "sales")


def test_assigned_queues_are_named_by_topic_and_broker() -> None:
    assert parse_assign('{"a":{"x":[1,0]},"b":{"x":[0]}}') == {A0, A1, B0}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("orders", "It is no JSON"),
        ("[]", r"It is set to \[\]"),
        ("{}", r"It is set to \{\}"),
        ('{"a":[0]}', r"a is set to \[0\]"),
        ('{"a":{"x":[]}}', r"a/x is set to \[\]"),
        ('{"a":{"x":[-1]}}', r"a/x is set to \[-1\]"),
        ('{"a":{"x":[true]}}', r"a/x is set to \[true\]"),
        ('{"a":{"x":["0"]}}', r'a/x is set to \["0"\]'),
        ('{"a":{"x":[0,1,0]}}', "names queue a/x/0 twice"),
        ('{"a":{"x":[0]},"a":{"x":[1]}}', "names 'a' twice"),
    ],
)
def test_bad_assignments_are_shown_with_what_was_expected(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=rf"{complaint}.* Expected queue ids by topic and broker name"):
        parse_assign(text)


@pytest.mark.parametrize(("text", "complaint"), [("(", "no regular expression"), ("", "matches no topic's name")])
def test_bad_patterns_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_pattern(text)
