"""Java's numbers and truth values, as filter expressions read them from property texts and compare them.

The rules are those of ``Integer.valueOf``, ``Long.valueOf``, ``Double.valueOf``, ``Boolean.valueOf`` and of
``ComparisonExpression`` over them (rules 3.13.3). A Java ``Integer`` is an ``int``, a ``Long`` is a
:class:`Long`, a ``Double`` is a ``float``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TypeAlias

INTEGER_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class Long(int):
    """A 64-bit integer. It differs from an ``int`` in the texts that are converted to compare with it."""


Value: TypeAlias = "str | bool | int | float"
"""What an expression yields, where it does not yield None (null)."""


class NotComparable(Exception):
    """Where Java throws: a text is no number, or a truth value stands left of a text."""


_INTEGER = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?)")
_HEX_DOUBLE = re.compile(r"(?P<number>[+-]?0[xX](?:[0-9A-Fa-f]+\.?|[0-9A-Fa-f]*\.[0-9A-Fa-f]+)[pP][+-]?[0-9]+)[fFdD]?")
_TRIMMED = "".join(map(chr, range(ord(" ") + 1)))


def trim(text: str) -> str:
    """``String.trim``: without blanks and control characters around it, and with every other space."""
    return text.strip(_TRIMMED)


def integer_from(text: str) -> int:
    """``Integer.valueOf``: a sign and decimal digits of any script, no blanks. Raises NotComparable."""
    return _whole(text, INTEGER_MAX)


def long_from(text: str) -> Long:
    """``Long.valueOf``: as :func:`integer_from`, in 64 bits."""
    return Long(_whole(text, LONG_MAX))


def _whole(text: str, largest: int) -> int:
    # Java looks at UTF-16 units one by one, so digits beyond the basic plane are none.
    if not _INTEGER.fullmatch(text) or not (text.isascii() or max(text) <= "\uffff"):
        raise NotComparable(text)
    try:
        number = int(text)
    except ValueError:  # Python reads no number of thousands of digits, and none of them is in range
        raise NotComparable(text) from None
    if not -largest - 1 <= number <= largest:
        raise NotComparable(text)
    return number


def double_from(text: str) -> float:
    """``Double.valueOf``: ``1e3``, ``.5``, ``5.``, ``5d``, ``0x1p3``, ``NaN``, ``-Infinity``, blanks around them.

    Raises NotComparable.
    """
    trimmed = trim(text)
    match = _DOUBLE.fullmatch(trimmed)
    if match:
        return float(trimmed.rstrip("fFdD") if match["number"] else trimmed)
    match = _HEX_DOUBLE.fullmatch(trimmed)
    if not match:
        raise NotComparable(text)
    try:
        return float.fromhex(match["number"])
    except OverflowError:
        return -math.inf if trimmed.startswith("-") else math.inf


def boolean_from(text: str) -> bool:
    """``Boolean.valueOf``: ``true`` in any case, and everything else is false."""
    return text.lower() == "true"


_READERS: dict[type, Callable[[str], Value]] = {
    bool: boolean_from,
    int: integer_from,
    Long: long_from,
    float: double_from,
}


def compare(left: Value, right: Value) -> int:
    """Below, at or above zero as ``left`` is less than, equal to or greater than ``right``.

    A text is converted to the type of the other side; other types that do not go together count as less. Raises
    NotComparable.
    """
    kinds = type(left), type(right)
    if kinds[0] is kinds[1]:
        return _order(left, right)
    if isinstance(left, bool):
        if isinstance(right, str):
            raise NotComparable(right)  # a slip of RocketMQ: it casts the left side to a text
        return -1
    if isinstance(left, str):
        return _order(_READERS[kinds[1]](left), right)
    if isinstance(right, str):
        return _order(left, _READERS[kinds[0]](right))
    if isinstance(right, bool):
        return -1
    if float in kinds:
        return _order(float(left), float(right))
    return _order(left, right)


def _order(left: Value, right: Value) -> int:
    if isinstance(left, float) and isinstance(right, float):
        left_key, right_key = _double_key(left), _double_key(right)
        return (left_key > right_key) - (left_key < right_key)
    return (left > right) - (left < right)  # type: ignore[operator]  # both are texts, or both are whole numbers


def _double_key(number: float) -> tuple[bool, float, float]:
    """Doubles in Java's total order: -0.0 below 0.0, and NaN, equal to itself, above everything."""
    return (True, 0.0, 0.0) if math.isnan(number) else (False, number, math.copysign(1.0, number))
