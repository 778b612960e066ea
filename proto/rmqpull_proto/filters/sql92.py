"""SQL92 filter expressions as trees (rules 3.13.2, 3.13.3).

The logic has three values: None is null, "unknown". ``java_values.NotComparable`` stands for an exception in Java.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence

from rmqpull_proto.filters.java_values import Long, Value, compare, parse_double

NESTING_MAX = 100
"""Levels of an expression. Java allows some thousands, until its stack overflows."""

Properties = Mapping[str, "str | None"]


class MalformedExpression(ValueError):
    """RocketMQ's parser or its checks refuse an expression."""


class TooComplex(MalformedExpression):
    """An expression exceeds a limit, so it is unknown whether it is malformed."""


class Expression(abc.ABC):
    """A node. ``is_boolean`` says whether it may be used as a condition.

    ``str()`` returns the text of the node in RocketMQ's error messages.
    """

    is_boolean = False

    def __init__(self, *operands: Expression) -> None:
        self.operands = operands
        self.node_count: int = 1 + sum(operand.node_count for operand in operands)
        self._depth: int = 1 + max((operand._depth for operand in operands), default=0)
        if self._depth > NESTING_MAX:
            raise TooComplex(
                f"The expression is nested deeper than {NESTING_MAX} levels; split it into several filters"
            )

    @abc.abstractmethod
    def evaluate(self, properties: Properties) -> Value | None:
        """Returns the value for these properties; a missing property is null. Raises NotComparable."""


def make_error(cause: str) -> MalformedExpression:
    """Returns the error of an expression that cannot be compiled: the text of ``MQFilterException``, and the cause."""
    return MalformedExpression(f"Invalid MessageSelector. {cause}")


def list_properties(expression: Expression) -> list[str]:
    """Returns the names of the properties in an expression, each once, in order."""

    def names(node: Expression) -> Iterator[str]:
        if isinstance(node, Property):
            yield node.name
        for operand in node.operands:
            yield from names(operand)

    return list(dict.fromkeys(names(expression)))


class Constant(Expression):
    """A literal. ``NULL`` has the value None."""

    def __init__(self, value: Value | None) -> None:
        super().__init__()
        self.value = value
        self.is_boolean = value is None or isinstance(value, bool)

    def evaluate(self, properties: Properties) -> Value | None:
        return self.value

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "''") + "'"
        return "NULL" if self.value is None else str(self.value).upper()


class Property(Expression):
    """A property of the message, always a text."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def evaluate(self, properties: Properties) -> Value | None:
        return properties.get(self.name)

    def __str__(self) -> str:
        return self.name


class Negate(Expression):
    """Unary minus: null for everything except a number, and so for every property."""

    def evaluate(self, properties: Properties) -> Value | None:
        value = self.operands[0].evaluate(properties)
        if value is None or isinstance(value, (str, bool)):
            return None
        return Long(-value) if isinstance(value, Long) else -value

    def __str__(self) -> str:
        return f"(- {self.operands[0]})"


class Condition(Expression):
    """A node with the value TRUE, FALSE or null."""

    is_boolean = True

    @abc.abstractmethod
    def evaluate(self, properties: Properties) -> bool | None: ...


class BooleanCast(Condition):
    """A property as a condition: it is a text, and so FALSE, unless it is missing."""

    def evaluate(self, properties: Properties) -> bool | None:
        return None if self.operands[0].evaluate(properties) is None else False

    def __str__(self) -> str:
        return str(self.operands[0])


class Not(Condition):
    """TRUE for FALSE, FALSE for TRUE, null for null."""

    def evaluate(self, properties: Properties) -> bool | None:
        value = self.operands[0].evaluate(properties)
        return None if value is None else not value

    def __str__(self) -> str:
        return f"(NOT {self.operands[0]})"


class Logic(Condition):
    """A chain of AND (``decisive`` is False) or OR (True): a decisive operand decides the result, otherwise one null
    makes it null."""

    def __init__(self, decisive: bool, operands: Sequence[Expression]) -> None:
        super().__init__(*operands)
        self.decisive = decisive

    def evaluate(self, properties: Properties) -> bool | None:
        result: bool | None = not self.decisive
        for operand in self.operands:
            value = operand.evaluate(properties)
            if value is self.decisive:
                return self.decisive
            if value is None:
                result = None
        return result

    def __str__(self) -> str:
        text, *others = map(str, self.operands)
        for other in others:
            text = f"({text} {'||' if self.decisive else '&&'} {other})"
        return text


class Equal(Condition):
    """``=`` and IS NULL: null if only the left side is null, FALSE if only the right side is null."""

    def evaluate(self, properties: Properties) -> bool | None:
        left, right = (operand.evaluate(properties) for operand in self.operands)
        if left is None:
            return True if right is None else None
        return right is not None and compare(left, right) == 0

    def __str__(self) -> str:
        return f"({self.operands[0]} == {self.operands[1]})"


class Ordering(Condition):
    """``>``, ``>=``, ``<`` or ``<=``. Compares two texts as doubles."""

    def __init__(self, symbol: str, left: Expression, right: Expression) -> None:
        super().__init__(left, right)
        self._symbol = symbol
        self._accepts = _ORDERINGS[symbol]

    def evaluate(self, properties: Properties) -> bool | None:
        left = self.operands[0].evaluate(properties)
        if left is None:
            return None
        right = self.operands[1].evaluate(properties)
        if right is None:
            return None
        if isinstance(left, str) and isinstance(right, str):
            left, right = parse_double(left), parse_double(right)
        return self._accepts(compare(left, right))

    def __str__(self) -> str:
        return f"({self.operands[0]} {self._symbol} {self.operands[1]})"


_ORDERINGS: dict[str, Callable[[int], bool]] = {
    ">": lambda answer: answer > 0,
    ">=": lambda answer: answer >= 0,
    "<": lambda answer: answer < 0,
    "<=": lambda answer: answer <= 0,
}


class In(Condition):
    """``IN`` and ``NOT IN`` a list of texts."""

    def __init__(self, operand: Expression, texts: Sequence[str], negated: bool) -> None:
        super().__init__(operand)
        self._texts = dict.fromkeys(texts)
        self._negated = negated

    def evaluate(self, properties: Properties) -> bool | None:
        value = self.operands[0].evaluate(properties)
        return None if value is None else (value in self._texts) is not self._negated

    def __str__(self) -> str:
        return f"{self.operands[0]} {'NOT IN' if self._negated else 'IN'} ( {', '.join(self._texts)} )"


class Search(Condition):
    """CONTAINS, STARTSWITH, ENDSWITH and their NOT forms: FALSE, negated or not, when the text or the property is
    missing."""

    def __init__(self, symbol: str, operand: Expression, text: str, negated: bool) -> None:
        super().__init__(operand)
        self._symbol = symbol
        self._finds = _SEARCHES[symbol]
        self._text = text
        self._negated = negated

    def evaluate(self, properties: Properties) -> bool | None:
        if not self._text:
            return False
        value = self.operands[0].evaluate(properties)
        return isinstance(value, str) and self._finds(value, self._text) is not self._negated

    def __str__(self) -> str:
        return f"({'NOT ' * self._negated}{self._symbol} {self.operands[0]})"


_SEARCHES: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}
