"""Java's way to read and compare values (rules 3.13.3), as OpenJDK 17 answers."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_proto.filters.java_values import (
    Long,
    NotComparable,
    Value,
    compare,
    parse_boolean,
    parse_double,
    parse_integer,
    parse_long,
    trim,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [("5", 5), ("-7", -7), ("+5", 5), ("007", 7), ("-0", 0), ("2147483647", 2**31 - 1), ("-2147483648", -(2**31))],
)
def test_a_text_that_is_an_integer(text: str, number: int) -> None:
    assert parse_integer(text) == parse_long(text) == number
    assert type(parse_long(text)) is Long


@pytest.mark.parametrize("text", ["\u0665", "5\u096b", "\uff15"])
def test_digits_of_any_script_are_digits(text: str) -> None:
    assert parse_integer(text) in (5, 55)


@pytest.mark.parametrize(
    "text",
    ["", "+", "-", "--5", " 5", "5 ", "5\n", "1_000", "3.5", "1e3", "5L", "0x10", "\u00b2", "\u2167", "\U0001d7d3"],
)
def test_a_text_that_is_no_integer(text: str) -> None:
    for read in (parse_integer, parse_long):
        with pytest.raises(NotComparable):
            read(text)


@pytest.mark.parametrize(
    ("read", "bits"), [(parse_integer, 31), (parse_long, 63)], ids=["Integer.valueOf", "Long.valueOf"]
)
def test_an_integer_has_its_range(read: Callable[[str], int], bits: int) -> None:
    assert (read(str(2**bits - 1)), read(str(-(2**bits)))) == (2**bits - 1, -(2**bits))
    for text in (str(2**bits), str(-(2**bits) - 1), "1" * 5_000):
        with pytest.raises(NotComparable):
            read(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3.5", 3.5),
        ("5", 5.0),
        ("5.", 5.0),
        (".5", 0.5),
        ("+.5", 0.5),
        ("-.5e1", -5.0),
        ("1e3", 1_000.0),
        ("1E+3", 1_000.0),
        ("5d", 5.0),
        ("5.0f", 5.0),
        ("5D", 5.0),
        (" \t5\n", 5.0),
        ("\x005\x1f", 5.0),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ("1e400", math.inf),
        ("-1e400", -math.inf),
        ("1e-400", 0.0),
        ("0x10p0", 16.0),
        ("-0x1p3d", -8.0),
        ("0x.8P1", 1.0),
        ("0x1p99999", math.inf),
        ("-0X1p99999", -math.inf),
    ],
)
def test_a_text_that_is_a_double(text: str, number: float) -> None:
    assert parse_double(text) == number


def test_not_a_number_is_a_double() -> None:
    assert math.isnan(parse_double("NaN"))
    assert math.copysign(1, parse_double("-0.0")) == -1


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ".",
        "e1",
        "1e",
        "5L",
        "5fd",
        "1_0",
        "--5",
        "nan",
        "inf",
        "NaNf",
        "Infinityd",
        "0x10",
        "0xp1",
        "\u00a05",
        "\u0665",
    ],
)
def test_a_text_that_is_no_double(text: str) -> None:
    with pytest.raises(NotComparable):
        parse_double(text)


@pytest.mark.parametrize(
    ("text", "truth"), [("true", True), ("TRUE", True), ("tRuE", True), ("yes", False), ("1", False), (" true", False)]
)
def test_only_true_is_true(text: str, truth: bool) -> None:
    assert parse_boolean(text) is truth


def test_blanks_and_control_characters_are_trimmed_and_other_spaces_are_not() -> None:
    assert trim("\x00 \t\u00a0a\u2003\r\n") == "\u00a0a\u2003"


@pytest.mark.parametrize(
    ("left", "sign", "right"),
    [
        (5, "=", 5),
        (5, "=", Long(5)),
        (5, "=", 5.0),
        (Long(5), "<", 5.5),
        # A Long is rounded before it meets a double.
        (Long(2**53 + 1), "=", float(2**53)),
        ("5", "=", 5),
        (5, "=", "5"),
        ("9999999999", ">", Long(2**31)),
        ("1e1", ">", 9.5),
        (9.5, "<", "1e1"),
        ("True", "=", True),
        ("yes", "<", True),
        (False, "<", True),
        ("a", "<", "b"),
        # NaN lies above everything and is itself; there are two zeros.
        ("NaN", ">", math.inf),
        (math.nan, "=", math.nan),
        (0.0, ">", -0.0),
        # What does not go together is less, from both sides.
        (True, "<", 1),
        (1, "<", True),
        (1.5, "<", False),
    ],
)
def test_comparing(left: Value, sign: str, right: Value) -> None:
    assert compare(left, right) == {"<": -1, "=": 0, ">": 1}[sign]


@pytest.mark.parametrize(
    ("left", "right"), [("x", 5), (5, "x"), ("3.5", 3), ("9999999999", 5), ("x", 5.5), (True, "true")]
)
def test_what_java_throws_at(left: Value, right: Value) -> None:
    with pytest.raises(NotComparable):
        compare(left, right)


@given(st.integers(-(2**63), 2**63 - 1))
def test_the_text_of_a_long_is_that_long(number: int) -> None:
    assert parse_long(str(number)) == number


@given(st.floats(allow_nan=False))
def test_the_text_of_a_double_is_that_double(number: float) -> None:
    assert parse_double(str(number).replace("inf", "Infinity")) == number
