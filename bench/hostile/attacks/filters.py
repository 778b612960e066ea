"""Filters that are costly to read or to evaluate."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from bench.hostile.attack import Attack, Target
from bench.hostile.attacks.sending import fill
from bench.hostile.attacks.waiting import make_pull
from bench.hostile.lines import flood

_PARENTHESES = 16_000
_SCANNED = 60_000
_WORDS = 400


def _pulls(target: Target, expressions: Iterator[str]) -> Iterator[None]:
    requests = (
        make_pull(number, subscription=expression, expressionType="SQL92")
        for number, expression in enumerate(expressions)
    )
    return flood(target.remoting, requests, window=2)


def parentheses(target: Target) -> Iterator[None]:
    """Pulls with expressions full of parentheses, a different one each time."""
    left, right = "(" * _PARENTHESES, ")" * _PARENTHESES
    return _pulls(target, (f"{left}a = {number}{right}" for number in count()))


def conditions(target: Target) -> Iterator[None]:
    """Pulls with expressions of as many conditions as are allowed, a different one each time."""
    words = " OR ".join(f"p{word} = {word}" for word in range(_WORDS))
    return _pulls(target, (f"{words} OR p = {number}" for number in count()))


def long_lists(target: Target) -> Iterator[None]:
    """Pulls with an IN of as many texts as are allowed, a different one each time."""
    words = ", ".join(f"'{word}'" for word in range(_WORDS * 4))
    return _pulls(target, (f"a IN ({words}, 'x{number}')" for number in count()))


def long_scans(target: Target) -> Iterator[None]:
    """Pulls with a filter that no message passes, from the beginning of long queues."""
    fill(target, _SCANNED)
    words = " OR ".join(f"(a > {word} AND a BETWEEN {word} AND {word})" for word in range(10, 60))
    return _pulls(target, (words for _ in count()))


def long_tags(target: Target) -> Iterator[None]:
    """Pulls with a list of as many tags as an expression holds."""
    tags = "||".join(f"t{tag}" for tag in range(4_000))
    requests = (make_pull(number, subscription=f"{tags}||x{number}") for number in count())
    return flood(target.remoting, requests, window=2)


FILTERS = (
    Attack("parentheses", "SQL92 with 16,000 parentheses", "words and signs of an expression", parentheses),
    Attack("conditions", f"SQL92 with {_WORDS} conditions, always new", "words and signs of an expression", conditions),
    Attack("in-lists", f"SQL92 with {_WORDS * 4:,} texts, always new", "words and signs of an expression", long_lists),
    Attack("scans", "filters that no message passes", "messages that a pull examines", long_scans),
    Attack("long-tags", "expressions of 4,000 tags, always new", "length of an expression", long_tags),
)
