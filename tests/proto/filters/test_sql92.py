"""What SQL92 expressions yield: tables whose every row was run against the classes of Apache RocketMQ 5.3.3.

A row is a result and an expression. T, F, U: TRUE, FALSE, unknown. PE: the parser refuses it. EE: Java throws while it
evaluates, so that the message does not match.
"""

import pytest

from rmqpull_proto.filters import sql92
from rmqpull_proto.filters.java_values import Long, NotComparable
from rmqpull_proto.filters.sql92 import Constant, Expression, MalformedExpression, Property
from rmqpull_proto.filters.sql92_grammar import parse

PROPERTIES = {
    "a": "5",
    "b": "abc",
    "f": "3.5",
    "t": "true",
    "neg": "-7",
    "n1": "10",
    "n2": "9",
    "e": "",
    "big": "9999999999",
    "nan": "NaN",
    "zero": "0.0",
    "minus": "-0.0",
    "blank": " 5",
    "q": "it's",
}
"""x and y are missing."""

# rules 3.13.4, 6.1; the row without an expression is the empty text.
REFERENCE = """
T  a > 3
T  a >= 5
F  a < 5
T  a = 5
T  a = '5'
T  a = 5.0
T  a <> 4
T  a <> '4'
T  a > 4.5
EE f > 3
T  f > 3.4
T  f = 3.5
EE f = 3
T  neg < 0
T  neg = -7
U  -a = -5
T  +a = 5
PE " 5" = 5
U  x > 3
U  x = 3
U  x <> 3
T  x IS NULL
F  x IS NOT NULL
T  a is not null
T  x = 3 OR a = 5
U  x = 3 AND a = 5
F  x = 3 AND a = 4
U  x = 3 OR a = 4
U  NOT (x = 3)
F  NOT (a = 5)
F  NOT a = 5
U  NOT x = 3
F  NOT NOT a = 5
T  a BETWEEN 3 AND 7
F  a NOT BETWEEN 3 AND 7
PE a BETWEEN 7 AND 3
U  x BETWEEN 3 AND 7
U  x NOT BETWEEN 3 AND 7
PE b BETWEEN 'a' AND 'c'
T  5 BETWEEN 3 AND a
T  a between 3 and n1
T  a between 3 and 7 and b='abc'
T  b IN ('abc','d')
F  b NOT IN ('abc','d')
U  x IN ('a')
U  x NOT IN ('a')
PE a IN (5)
T  a IN ('5')
PE b IN ()
PE b IN ('abc',)
T  a in ('5') or x=1
T  b CONTAINS 'bc'
F  b NOT CONTAINS 'bc'
T  b NOT CONTAINS 'z'
F  x CONTAINS 'a'
F  x NOT CONTAINS 'a'
F  b CONTAINS ''
F  b NOT CONTAINS ''
T  b STARTSWITH 'ab'
T  b ENDSWITH 'bc'
PE b CONTAINS b
T  'abc' CONTAINS 'b'
PE a CONTAINS 5
T  t = TRUE
T  t <> FALSE
F  b = TRUE
U  x = TRUE
F  t
T  NOT t
T  TRUE
F  NOT TRUE
F  TRUE AND t
PE 'abc'
PE 5
F  b
T  b = 'abc'
F  b <> 'abc'
T  'abc' = b
PE b > 'abb'
EE b > 5
EE b = 5
F  a > n2
T  n1 > n2
F  a = f
PE b = "abc"
T  a = 5 garbage
T  a = 5)
PE a = 5 AND
PE (a = 5
PE a == 5
PE a != 5
PE a = NULL
T  NULL IS NULL
PE a > 'x'
F  a + 1 = 6
F  a LIKE 'x'
F  a = 0
PE a = 0.0
F  a = 007
F  a > 1e2
T  a = 5L
F  a = .5
F  a = 9223372036854775807
PE a = 9223372036854775808
PE a = -9223372036854775808
T  /* c */ a = 5
T  a = 5 -- c
T  now IS NULL
U  A = 5
PE a.b IS NULL
F  a-b = 1
PE between = 1
PE a IS TRUE
T  (a = 5) = TRUE
T  (a > 3) = (a < 9)
PE
T  e = ''
F  e IS NULL
F  e CONTAINS ''
EE t > 1
PE a > TRUE
T  5 > 3.2
T  5 = 5.0
T  a=5 OR b='z' AND x=1
U  a <> 5 OR x <> 5
T  a > - 5
"""

FURTHER = """
# the missing property decides by its side
F  3 = x
T  3 <> x
U  x = a
F  a = x
T  a <> x
T  x = y
F  x <> y
T  (x = 3) IS NULL
F  5 IS NULL
U  x > b
U  b > x
# truth values meet texts only on their right
EE TRUE = t
EE FALSE <> t
T  t = TRUE
T  'true' = TRUE
PE TRUE = 'true'
PE TRUE = 5
F  5 = TRUE
F  -5 = TRUE
T  TRUE = (a = 5)
T  b <> TRUE
T  a = 5 = TRUE
F  a = 5 = 5
# unary operators
T  a = --5
T  a = - -5
T  + + a = 5
T  + TRUE
PE + 5
PE -TRUE
T  -TRUE IS NULL
PE NOT -5
PE NOT 5
U  NOT NULL
U  NULL
F  NULL AND FALSE
T  NULL OR TRUE
F  a AND t
T  NOT a AND NOT t
T  NOT NOT (a = 5)
F  NOT(a)=5
T  a IS NULL IS NOT NULL
# which operands are evaluated, and so which can fail
EE b = 5 OR a = 5
T  a = 5 OR b = 5
F  a = 4 AND b = 5
EE x = 3 AND b = 5
U  x > -(b = 5)
EE -(b = 5) > x
U  -(a = 5) > 1
EE x = -(b = 5)
F  (b = 5) CONTAINS ''
EE (b = 5) CONTAINS 'x'
# numbers
T  big > -2147483648
EE big > -2147483647
EE big > 2147483647
T  big > 2147483648
T  big = 9999999999L
T  nan > 5.5
T  nan = nan
T  nan >= n1
T  zero > minus
F  zero = minus
EE zero = 0
EE blank = 5
T  blank > 4.5
F  blank > n2
EE e = 1
EE e > 1
EE b > n1
T  2147483648 > 5
T  9007199254740993 = 9007199254740992.0
F  a = 0L
T  a = 5L5
T  a = 5.e0
T  a = 5e
T  a = 00005.0
PE a = 5e400
PE a = 5e-400
PE a > 3 > 4
# IN and BETWEEN
T  +a IN ('5')
PE -a IN ('5')
T  (a) IN ('5')
PE 5 IN ('5')
PE (a = 5) IN ('5')
PE NOT a IN ('4')
T  NOT (a IN ('4'))
PE a NOT IN 5
PE a IN ('5' '6')
T  e IN ('')
T  b IN ('x', 'abc', 'x', 'y', 'z', 'w')
F  a BETWEEN 7 AND -3
T  a NOT BETWEEN 7 AND 3
PE a BETWEEN NULL AND 3
PE a BETWEEN 3 AND TRUE
PE a BETWEEN 'x' AND 5
PE a BETWEEN 3 AND (a = 5)
T  a BETWEEN 3.0 AND 7
EE b BETWEEN 3 AND 7
# texts and their ends
T  q = 'it''s'
T  q CONTAINS ''''
F  5 CONTAINS '5'
F  TRUE CONTAINS 'T'
T  a CONTAINS '5' = TRUE
PE a = '5
PE a = '5' '
F  a = '5'''
PE a = 5 IS
PE a = 5 NOT b
PE a = 5 #
T  a = 5 ) #
T  a = 5 b #
PE a = 5 /* c
T  /* * ** / */ a = 5
T  a=5AND b='abc'
T  a=5 ANDb='abc'
PE a = 5 AND OR
PE ()
T  (((((a = 5)))))
PE a=5;
T  $_1 IS NULL
PE Nul\u212a IS NULL
PE a\u00a0= 5
PE NULL = 1
PE 1 > NULL
F  NULL IS NOT NULL
"""


def rows(table: str) -> list[tuple[str, str]]:
    """Pairs of expression and result."""
    return [(line[3:], line[:2].strip()) for line in table.splitlines() if line and not line.startswith("#")]


def result_of(expression: str) -> str:
    try:
        value = parse(expression).evaluate(PROPERTIES)
    except MalformedExpression:
        return "PE"
    except NotComparable:
        return "EE"
    return "U" if value is None else "T" if value is True else "F" if value is False else repr(value)


@pytest.mark.parametrize(("expression", "result"), rows(REFERENCE))
def test_the_table_of_the_reference(expression: str, result: str) -> None:
    assert result_of(expression) == result


@pytest.mark.parametrize(("expression", "result"), rows(FURTHER))
def test_what_the_reference_leaves_open(expression: str, result: str) -> None:
    assert result_of(expression) == result


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("a = 5L", "(a == 5)"),
        ("a <> TRUE", "(NOT (a == TRUE))"),
        ("x IS NULL", "(x == NULL)"),
        ("a AND b = 'it''s' OR t", "((a && (b == 'it''s')) || t)"),
        ("a >= -3.5 OR a < 2 OR a", "(((a >= (- 3.5)) || (a < 2)) || a)"),
        ("a BETWEEN 3 AND b", "((a >= 3) && (a <= b))"),
        ("a NOT IN ('x', 'y') ", "a NOT IN ( x, y )"),
        ("b CONTAINS 'x'", "(CONTAINS b)"),
        ("b NOT ENDSWITH 'x'", "(NOT ENDSWITH b)"),
    ],
)
def test_how_rocketmq_writes_an_expression(expression: str, text: str) -> None:
    assert str(parse(expression)) == text


def test_the_properties_that_an_expression_looks_at() -> None:
    assert sql92.list_properties(parse("b = 1 OR NOT (a > b AND TAGS IN ('x')) OR 5 = 5.0")) == ["b", "a", "TAGS"]


def test_an_integer_that_needs_64_bits_stays_a_long_when_it_is_negated() -> None:
    assert type(sql92.Negate(Constant(Long(2**31))).evaluate({})) is Long
    assert type(sql92.Negate(Constant(2**31 - 1)).evaluate({})) is int


def test_an_expression_has_a_limited_depth_and_a_chain_has_none() -> None:
    def nested(levels: int) -> Expression:
        node: Expression = Constant(True)
        for _ in range(levels - 1):
            node = sql92.Not(node)
        return node

    assert nested(sql92.NESTING_MAX).evaluate({}) is False
    with pytest.raises(MalformedExpression, match="nested deeper than 100 levels"):
        nested(sql92.NESTING_MAX + 1)
    chain = sql92.Logic(True, [sql92.Equal(Property("a"), Constant(number)) for number in range(5_000)])
    assert chain.evaluate({"a": "4999"}) is True
