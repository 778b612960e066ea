"""Suggests a known name for an unknown one, which is probably a typing mistake."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def find_nearest(name: str, known: Iterable[str], nearness: float = 0.6) -> str | None:
    """Finds the known name that is most similar to ``name``, ignoring case."""
    by_lower = {other.lower(): other for other in known}
    found = difflib.get_close_matches(name.lower(), by_lower, 1, nearness)
    return by_lower[found[0]] if found else None


def suggest(name: str, known: Iterable[str]) -> str:
    """Returns the end of an error about an unknown name: the most similar name, or nothing."""
    near = find_nearest(name, known)
    return "" if near is None else f". Did you mean {near!r}?"
