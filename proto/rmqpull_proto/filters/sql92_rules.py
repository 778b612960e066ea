"""The rules of the SQL92 grammar, with RocketMQ's checks (rules 3.13.2).

The checks are those of ``SelectorParser``, ``ComparisonExpression`` and ``ConstantExpression``, with the same error
texts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from rmqpull_proto.filters.java_values import INTEGER_MAX, LONG_MAX, Long, NotComparable, compare
from rmqpull_proto.filters.sql92 import (
    BooleanCast,
    Constant,
    Equal,
    Expression,
    In,
    Logic,
    Negate,
    Not,
    Ordering,
    Property,
    Search,
    make_error,
)

TEXT = r"'(?:''|[^'])*'"
"""A text in its quotes, as a regular expression. A quote in it is doubled."""
_TEXT = re.compile(TEXT)


class Rules:
    """The rules by their names in the grammar. Each may raise MalformedExpression."""

    def start(self, expression: Expression) -> Expression:
        return _make_condition(expression)

    def disjunction(self, *operands: Expression) -> Expression:
        return _make_chain(True, operands)

    def conjunction(self, *operands: Expression) -> Expression:
        return _make_chain(False, operands)

    def equal(self, left: Expression, right: Expression) -> Expression:
        """Neither side may be NULL, and a boolean may not be compared with another constant."""
        for side in (left, right):
            if isinstance(side, Constant) and side.value is None:
                raise make_error(f"'{side}' cannot be compared.")
        if isinstance(left, Constant) and isinstance(right, Constant) and left.is_boolean and not right.is_boolean:
            raise make_error(f"'{left}' cannot be compared with '{right}'")
        return Equal(left, right)

    def not_equal(self, left: Expression, right: Expression) -> Expression:
        return Not(self.equal(left, right))

    def is_null(self, operand: Expression) -> Expression:
        return Equal(operand, Constant(None))

    def is_not_null(self, operand: Expression) -> Expression:
        return Not(self.is_null(operand))

    def ordering(self, left: Expression, symbol: str, right: Expression) -> Expression:
        """Both sides must be possible numbers."""
        for side in (left, right):
            if side.is_boolean or (isinstance(side, Constant) and isinstance(side.value, str)):
                raise make_error(f"Value '{side}' cannot be compared.")
        return Ordering(symbol, left, right)

    def between(self, value: Expression, low: Expression, high: Expression) -> Expression:
        """Constant bounds must be in order."""
        if isinstance(low, Constant) and isinstance(high, Constant):
            _check_bounds(low, high)
        return Logic(False, [self.ordering(value, ">=", low), self.ordering(value, "<=", high)])

    def not_between(self, value: Expression, low: Expression, high: Expression) -> Expression:
        """Bounds may be in the wrong order."""
        return Logic(True, [self.ordering(value, "<", low), self.ordering(value, ">", high)])

    def is_in(self, operand: Expression, literals: Sequence[str], negated: bool) -> Expression:
        """``literals`` are texts in quotes, each one or several with commas between them."""
        if not isinstance(operand, Property):
            raise make_error(f"Expected a property for In expression, got: {operand}")
        return In(operand, [_unquote(text) for literal in literals for text in list_texts(literal)], negated)

    def search(self, operand: Expression, symbol: str, literal: str, negated: bool) -> Expression:
        return Search(symbol, operand, _unquote(literal), negated)

    def negate(self, operand: Expression) -> Expression:
        return Negate(operand)

    def negation(self, operand: Expression) -> Expression:
        return Not(_make_condition(operand))

    def string(self, literal: str) -> Expression:
        return Constant(_unquote(literal))

    def decimal(self, literal: str) -> Expression:
        """32 bits if they are enough, else 64. The ``L`` has no effect."""
        digits = literal.rstrip("lL")
        if len(digits) > len(str(LONG_MAX)) or int(digits) > LONG_MAX:
            raise make_error(f'For input string: "{digits}"')
        number = int(digits)
        return Constant(number if number <= INTEGER_MAX else Long(number))

    def floating_point(self, literal: str) -> Expression:
        """Zero is not allowed, nor is a number that is too large."""
        number = float(literal)
        if math.isinf(number):
            raise make_error(f"{literal} is greater than 1.7976931348623157E308")
        if number == 0.0:
            raise make_error(f"{literal} is less than 4.9E-324")
        return Constant(number)

    def true(self, _: str) -> Expression:
        return Constant(True)

    def false(self, _: str) -> Expression:
        return Constant(False)

    def null(self, _: str) -> Expression:
        return Constant(None)

    def property(self, name: str) -> Expression:
        return Property(name)


RULES = Rules()


def _make_condition(expression: Expression) -> Expression:
    """Returns the expression as a condition."""
    if expression.is_boolean:
        return expression
    if isinstance(expression, Property):
        return BooleanCast(expression)
    raise make_error(f"Expression will not result in a boolean value: {expression}")


def _make_chain(decisive: bool, operands: Sequence[Expression]) -> Expression:
    if len(operands) == 1:
        return operands[0]
    return Logic(decisive, list(map(_make_condition, operands)))


def _check_bounds(low: Constant, high: Constant) -> None:
    if low.value is None or high.value is None:
        raise make_error("Illegal values of between, values can not be null!")
    try:
        descends = compare(high.value, low.value) < 0
    except NotComparable as error:
        raise make_error(f'For input string: "{error}"') from None
    if descends:
        raise make_error(
            f"Illegal values of between, left value({low.value}) must less than or equal to right value({high.value})"
        )


def list_texts(literals: str) -> list[str]:
    """Returns the texts of a list in their quotes."""
    return _TEXT.findall(literals)


def _unquote(literal: str) -> str:
    return literal[1:-1].replace("''", "'")
