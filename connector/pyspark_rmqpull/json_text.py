"""JSON as options have it, in which nothing may be named twice: one of the two would count for nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeVar

_T = TypeVar("_T")


class _NamedTwice(Exception):
    """The message is the name."""


def parse_json(text: str, expected: str, not_json: str = "no JSON") -> Any:
    """What a text says. Raises ValueError, which ends with what was expected, also for an object with a name twice."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except _NamedTwice as name:
        raise ValueError(f"It names {name} twice. {expected}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"It is {not_json} ({error}). {expected}") from None


def repeated(values: Iterable[_T]) -> list[_T]:
    """The values that come more than once, each once."""
    return [value for value, count in Counter(values).items() if count > 1]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if names := repeated(name for name, _ in pairs):
        raise _NamedTwice(repr(names[0]))
    return dict(pairs)
