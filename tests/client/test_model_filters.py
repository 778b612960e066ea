"""What the client derives from a filter expression."""

from __future__ import annotations

import pytest

from rmqpull_client.model import EVERYTHING, SQL92, MessageFilter


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("*", set()),
        ("", set()),
        ("paid", {"paid"}),
        ("paid || sent", {"paid", "sent"}),
        ("paid||\tsent\n||", {"paid", "sent"}),
        ("a\u00a0|| b", {"a\u00a0", "b"}),  # Java does not trim other blanks
        ("||", set()),
    ],
)
def test_tags_are_parsed_as_rocketmq_does(expression: str, tags: set[str]) -> None:
    assert MessageFilter(expression).tags == tags


def test_an_sql_filter_has_no_tags() -> None:
    assert MessageFilter("TAGS = 'a'", SQL92).tags == frozenset()


@pytest.mark.parametrize(
    ("given", "everything"),
    [
        (EVERYTHING, True),
        (MessageFilter(""), True),
        (MessageFilter("paid"), False),
        (MessageFilter("||"), False),
        (MessageFilter("*", SQL92), False),
    ],
)
def test_keeps_everything(given: MessageFilter, everything: bool) -> None:
    assert given.keeps_everything is everything
