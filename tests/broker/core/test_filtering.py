"""Filter expressions (rocketmq-semantics 3.12.1)."""

import pyarrow as pa
import pytest

from rmqpull_broker.core.errors import IllegalFilterExpression, NotImplementedYet
from rmqpull_broker.core.filtering import EVERYTHING, TagFilter, parse_filter, parse_tags

TAGS = ["a", "b", "*", "", None]
BATCH = pa.record_batch({"tags": pa.array(TAGS, pa.string())})


def kept(tag_filter: TagFilter) -> list[str | None]:
    mask = tag_filter.mask(BATCH)
    return TAGS if mask is None else BATCH.filter(mask)["tags"].to_pylist()


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("", TAGS),
        ("*", TAGS),
        ("a", ["a"]),
        (" a ", ["a"]),
        ("a||b", ["a", "b"]),
        ("a || b", ["a", "b"]),
        ("b || a || b", ["a", "b"]),
        ("a ||", ["a"]),
        ("|| a", ["a"]),
        ("a || || b", ["a", "b"]),
        ("a || *", ["a", "*"]),
        (" * ", ["*"]),
        ("A", []),
        ("a b", []),
        ("a | b", []),
        ("a && b", []),
        ("!a", []),
        ("   ", []),
        (" || ", []),
    ],
)
def test_a_tag_expression_keeps(expression: str, tags: list[str | None]) -> None:
    assert kept(parse_tags(expression)) == tags


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_nothing_but_separators_is_no_expression(expression: str) -> None:
    with pytest.raises(IllegalFilterExpression, match="subString split error"):
        parse_filter("TAG", expression)


def test_sql_is_refused_as_not_served() -> None:
    with pytest.raises(NotImplementedYet, match="SQL92"):
        parse_filter("SQL", "a = 1")


@pytest.mark.parametrize(
    ("tag_filter", "first_row", "matches"),
    [
        (EVERYTHING, 0, True),
        (EVERYTHING, len(TAGS), False),
        (TagFilter(frozenset({"b"})), 0, True),
        (TagFilter(frozenset({"b"})), 2, False),
        (TagFilter(frozenset()), 0, False),
    ],
)
def test_a_batch_matches_when_one_of_its_rows_does(tag_filter: TagFilter, first_row: int, matches: bool) -> None:
    assert tag_filter.matches_any(BATCH.slice(first_row)) is matches
