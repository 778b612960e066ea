"""Java's numbers and booleans: how filter expressions parse them from property texts and compare them.

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
    """A 64-bit integer. Texts are parsed differently for comparisons with it."""


Value: TypeAlias = "str | bool | int | float"
"""The value of an expression; None (null) is not included."""


class NotComparable(Exception):
    """Where Java throws: a text is not a number, or a boolean is compared with a text."""


_INTEGER = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?)")
_HEX_DOUBLE = re.compile(r"(?P<number>[+-]?0[xX](?:[0-9A-Fa-f]+\.?|[0-9A-Fa-f]*\.[0-9A-Fa-f]+)[pP][+-]?[0-9]+)[fFdD]?")
_TRIMMED = "".join(map(chr, range(ord(" ") + 1)))


def trim(text: str) -> str:
    """``String.trim``: removes blanks and control characters around a text, but no other spaces."""
    return text.strip(_TRIMMED)


def parse_integer(text: str) -> int:
    """``Integer.valueOf``: a sign and decimal digits of any script, no blanks. Raises NotComparable."""
    return _parse_whole(text, INTEGER_MAX)


def parse_long(text: str) -> Long:
    """``Long.valueOf``: as :func:`parse_integer`, in 64 bits."""
    return Long(_parse_whole(text, LONG_MAX))


def _parse_whole(text: str, largest: int) -> int:
    # Java reads UTF-16 units, so digits outside the basic plane do not count.
    if not _INTEGER.fullmatch(text) or not (text.isascii() or max(text) <= "\uffff"):
        raise NotComparable(text)
    try:
        number = int(text)
    except ValueError:  # Python does not parse thousands of digits, and such a number is out of range anyway
        raise NotComparable(text) from None
    if not -largest - 1 <= number <= largest:
        raise NotComparable(text)
    return number


def parse_double(text: str) -> float:
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


def parse_boolean(text: str) -> bool:
    """``Boolean.valueOf``: ``true`` in any case is true, and every other text is false."""
    return text.lower() == "true"


_READERS: dict[type, Callable[[str], Value]] = {
    bool: parse_boolean,
    int: parse_integer,
    Long: parse_long,
    float: parse_double,
}


def compare(left: Value, right: Value) -> int:
    """Returns a number below, at or above zero: ``left`` is less than, equal to or greater than ``right``.

    A text is converted to the type of the other side. Other types that do not match count as less. Raises
    NotComparable.
    """
    kinds = type(left), type(right)
    if kinds[0] is kinds[1]:
        return _order(left, right)
    if isinstance(left, bool):
        if isinstance(right, str):
            raise NotComparable(right)  # a bug of RocketMQ: it casts the left side to a text
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
    """Returns a sort key with Java's order of doubles: -0.0 below 0.0, and NaN, equal to itself, above all."""
    return (True, 0.0, 0.0) if math.isnan(number) else (False, number, math.copysign(1.0, number))
