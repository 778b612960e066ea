"""What SQL92 literals become and what their rules refuse; whole expressions are in the tables of ``test_sql92``."""

import pytest

from rmqpull_proto.filters.java_values import Long, Value
from rmqpull_proto.filters.sql92 import Constant, MalformedExpression
from rmqpull_proto.filters.sql92_rules import Rules

RULES = Rules()


@pytest.mark.parametrize(
    ("rule", "literal", "value"),
    [
        ("decimal", "0", 0),
        ("decimal", "5L", 5),
        ("decimal", "2147483647", 2**31 - 1),
        ("decimal", "2147483648", Long(2**31)),
        ("decimal", "9223372036854775807l", Long(2**63 - 1)),
        ("floating_point", "5.", 5.0),
        ("floating_point", ".5E+1", 5.0),
        ("floating_point", "4.9e-324", 5e-324),
        ("string", "''", ""),
        ("string", "'it''s'", "it's"),
        ("string", "''''''", "''"),
    ],
)
def test_a_literal_has_its_value_and_type(rule: str, literal: str, value: Value) -> None:
    constant = getattr(RULES, rule)(literal)
    assert (constant.value, type(constant.value)) == (value, type(value))


@pytest.mark.parametrize(
    ("rule", "literal"),
    [
        ("decimal", "9223372036854775808"),
        ("decimal", "9" * 10_000),
        ("floating_point", "0.0"),
        ("floating_point", "2e-324"),
        ("floating_point", "1.8e308"),
    ],
)
def test_a_literal_has_a_range(rule: str, literal: str) -> None:
    with pytest.raises(MalformedExpression):
        getattr(RULES, rule)(literal)


def test_bounds_are_in_order_where_both_are_constants() -> None:
    value, low, high = RULES.property("a"), Constant(3), Constant(7)
    assert str(RULES.between(value, low, high)) == "((a >= 3) && (a <= 7))"
    assert str(RULES.not_between(value, high, low)) == "((a < 7) || (a > 3))"
    assert str(RULES.between(value, high, RULES.negate(low))) == "((a >= 7) && (a <= (- 3)))"
    with pytest.raises(MalformedExpression, match="must less than or equal"):
        RULES.between(value, high, low)
