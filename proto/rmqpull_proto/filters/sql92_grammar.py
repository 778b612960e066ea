"""The grammar of SQL92 filter expressions (rules 3.13.1, 3.13.2). ``sql92_rules`` has what its rules do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from rmqpull_proto.filters.sql92 import Expression, TooComplex, make_error
from rmqpull_proto.filters.sql92_rules import RULES, TEXT, list_texts

TOKENS_MAX = 4_096
"""The most words, numbers, texts and signs of an expression: other calls wait while they are parsed."""

_KEYWORD_TERMINALS = "_AND _OR _NOT _BETWEEN _IN _TRUE _FALSE _IS _NULL CONTAINS STARTSWITH ENDSWITH"
_KEYWORDS = {terminal.lstrip("_"): terminal for terminal in _KEYWORD_TERMINALS.split()}

_SKIPPED = ("BLANK", "BLOCK_COMMENT", "LINE_COMMENT")

_ORDERINGS = ("GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
_SEARCHES = ("CONTAINS", "STARTSWITH", "ENDSWITH")


_BLANK = r"[ \t\n\r\f]"
# Letters are spelled out: with a flag for any case, the Kelvin sign would match a k.
_TERMINALS = {
    "BLANK": rf"{_BLANK}+",
    "BLOCK_COMMENT": r"/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/",
    "LINE_COMMENT": r"--",
    "STRING": TEXT,
    "FLOATING_POINT": r"[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+",
    "DECIMAL": r"0|[1-9][0-9]*[lL]?",
    "WORD": r"[A-Za-z_$][A-Za-z0-9_$]*",
    "_NOT_EQUAL": "<>",
    "GREATER_EQUAL": ">=",
    "LESS_EQUAL": "<=",
    "GREATER": ">",
    "LESS": "<",
    "_EQUAL": "=",
    "_LEFT": r"\(",
    "_RIGHT": r"\)",
    "_COMMA": ",",
    "_PLUS": r"\+",
    "_MINUS": "-",
}
_LIST = re.compile(rf"{_BLANK}*{TEXT}(?:{_BLANK}*,{_BLANK}*{TEXT})*")
"""The texts of IN, or the first of them, as one token: one by one they take ten times as long."""
_TOKEN = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _TERMINALS.items()))
_END_OF_LINE = re.compile(r"\r\n|\n|\r")


def _scan(expression: str) -> Iterator[tuple[str, str, int]]:
    """Yields terminal, text and position of each token, in time linear to the length. Raises MalformedExpression.

    A line comment without an end of line is two minus signs, like in RocketMQ.
    """
    last_line = max(expression.rfind("\n"), expression.rfind("\r"))
    at, last = 0, ""
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None or match.lastgroup is None:
            raise make_error(f'Lexical error at {_describe_place(expression, at)}.  Encountered: "{expression[at]}"')
        terminal, text, at = match.lastgroup, match[0], match.end()
        if terminal == "LINE_COMMENT" and match.start() < last_line:
            end = _END_OF_LINE.search(expression, at)
            at = end.end() if end is not None else at
        elif terminal == "LINE_COMMENT":
            yield from (("_MINUS", "-", place) for place in (at - 2, at - 1))
            last = "_MINUS"
        elif terminal not in _SKIPPED:
            if terminal == "WORD":
                terminal = _KEYWORDS.get(text.upper(), terminal)
            yield terminal, text, match.start()
            if (last, terminal) == ("_IN", "_LEFT") and (texts := _LIST.match(expression, at)) is not None:
                yield "TEXTS", texts[0], at
                at = texts.end()
            last = terminal


def _describe_place(expression: str, at: int) -> str:
    line = expression.count("\n", 0, at) + 1
    return f"line {line}, column {at - expression.rfind(chr(10), 0, at)}"


class _Level:
    """What has been read of an expression, up to its closing parenthesis or its end, and still lacks its right side."""

    __slots__ = ("between", "comparison", "conjunction", "disjunction", "equality", "signs")

    def __init__(self) -> None:
        self.disjunction: list[Expression] = []
        self.conjunction: list[Expression] = []
        self.equality: Callable[[Expression], Expression] | None = None
        self.between: Callable[[Expression, Expression], Expression] | None = None
        self.comparison: Callable[[Expression], Expression] | None = None
        self.signs: list[Callable[[Expression], Expression]] = []


class _Parser:
    """Reads one expression from left to right, one token ahead. Parentheses nest in a list, not in Python's stack.

    From low to high: OR, AND, equalities, comparisons, signs. All but the signs group from left to right.
    """

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens = _scan(expression)
        self._count = 0
        self._levels = [_Level()]
        self._advance()

    def parse(self) -> Expression:
        """Returns the tree of the longest condition at the start. Raises MalformedExpression."""
        while True:
            value = self._go_on(self._read_operand())
            while value is not None:
                if len(self._levels) == 1:
                    return RULES.start(value)
                self._take("_RIGHT")
                self._levels.pop()
                value = self._go_on(value)

    def _advance(self) -> None:
        self._terminal, self._text, self._at = next(self._tokens, _END)
        self._count += 2 * len(list_texts(self._text)) - 1 if self._terminal == "TEXTS" else 1
        if self._count > TOKENS_MAX and self._terminal != _END[0]:
            raise TooComplex(
                f"The expression has more than {TOKENS_MAX} words and signs; split it into several filters"
            )

    def _skip(self, terminal: str) -> bool:
        """Takes a token if it is of this terminal. Returns whether it was."""
        is_next = self._terminal == terminal
        if is_next:
            self._advance()
        return is_next

    def _take(self, *terminals: str) -> str:
        """Takes a token, which must be of one of these terminals, and returns its text."""
        if self._terminal not in terminals:
            if self._terminal == _END[0]:
                raise make_error('Encountered "<EOF>"')
            raise make_error(f'Encountered "{self._text}" at {_describe_place(self._expression, self._at)}')
        text = self._text
        self._advance()
        return text

    def _read_operand(self) -> Expression:
        """Reads signs and opening parentheses, and the literal or property after them."""
        while True:
            if self._skip("_LEFT"):
                self._levels.append(_Level())
            elif self._skip("_MINUS"):
                self._levels[-1].signs.append(RULES.negate)
            elif self._skip("_NOT"):
                self._levels[-1].signs.append(RULES.negation)
            elif not self._skip("_PLUS"):
                terminal = self._terminal
                text = self._take(*_OPERANDS)
                return _OPERANDS[terminal](text)

    def _go_on(self, operand: Expression) -> Expression | None:
        """Adds an operand to the level. Returns the value of the level, or None if another operand must follow."""
        level, value = self._levels[-1], operand
        while level.signs:
            value = level.signs.pop()(value)
        if level.between is not None:
            self._take("_AND")
            level.comparison, level.between = partial(level.between, value), None
            return None
        if level.comparison is not None:
            value, level.comparison = level.comparison(value), None
        compared = self._read_comparisons(level, value)
        if compared is None:
            return None
        if level.equality is not None:
            compared, level.equality = level.equality(compared), None
        equated = self._read_equalities(level, compared)
        if equated is None:
            return None
        level.conjunction.append(equated)
        if self._skip("_AND"):
            return None
        level.disjunction.append(RULES.conjunction(*level.conjunction))
        level.conjunction.clear()
        return None if self._skip("_OR") else RULES.disjunction(*level.disjunction)

    def _read_comparisons(self, level: _Level, value: Expression) -> Expression | None:
        while True:
            if self._terminal in _ORDERINGS:
                level.comparison = partial(RULES.ordering, value, self._take(*_ORDERINGS))
                return None
            negated = self._skip("_NOT")
            if self._skip("_BETWEEN"):
                level.between = partial(RULES.not_between if negated else RULES.between, value)
                return None
            if self._skip("_IN"):
                value = RULES.is_in(value, self._read_texts(), negated)
            elif negated or self._terminal in _SEARCHES:
                symbol = self._terminal
                self._take(*_SEARCHES)
                value = RULES.search(value, symbol, self._take("STRING"), negated)
            else:
                return value

    def _read_texts(self) -> list[str]:
        self._take("_LEFT")
        literals = [self._take("TEXTS", "STRING")]
        while self._skip("_COMMA"):
            literals.append(self._take("STRING"))
        self._take("_RIGHT")
        return literals

    def _read_equalities(self, level: _Level, value: Expression) -> Expression | None:
        while True:
            if self._skip("_EQUAL"):
                level.equality = partial(RULES.equal, value)
                return None
            if self._skip("_NOT_EQUAL"):
                level.equality = partial(RULES.not_equal, value)
                return None
            if not self._skip("_IS"):
                return value
            rule = RULES.is_not_null if self._skip("_NOT") else RULES.is_null
            self._take("_NULL")
            value = rule(value)


_END = ("", "", 0)
"""Stands for a token after the last one."""
_OPERANDS: dict[str, Callable[[str], Expression]] = {
    "STRING": RULES.string,
    "DECIMAL": RULES.decimal,
    "FLOATING_POINT": RULES.floating_point,
    "_TRUE": RULES.true,
    "_FALSE": RULES.false,
    "_NULL": RULES.null,
    "WORD": RULES.property,
}


def parse(expression: str) -> Expression:
    """Parses the longest condition at the start of ``expression``. Ignores the rest, like RocketMQ.

    Raises MalformedExpression where RocketMQ's parser does, and TooComplex above ``sql92.NESTING_MAX`` levels and
    above ``TOKENS_MAX`` words and signs.
    """
    return _Parser(expression).parse()
