"""Filter expressions as far as the client reads them."""

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
        ("a\u00a0|| b", {"a\u00a0", "b"}),  # Java trims no other blanks
        ("||", set()),
    ],
)
def test_tags_are_read_as_rocketmq_reads_them(expression: str, tags: set[str]) -> None:
    assert MessageFilter(expression).tags == tags


def test_sql_has_no_tags_to_check() -> None:
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
def test_what_keeps_everything(given: MessageFilter, everything: bool) -> None:
    assert given.keeps_everything is everything
