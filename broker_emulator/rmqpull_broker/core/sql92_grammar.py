"""The grammar of SQL92 filter expressions (rocketmq-semantics 3.13.1, 3.13.2)."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from rmqpull_broker.core import sql92
from rmqpull_broker.core.sql92 import Constant, Expression

if TYPE_CHECKING:
    from lark import Lark, Token

_KEYWORD_TERMINALS = "_AND _OR _NOT _BETWEEN _IN _TRUE _FALSE _IS _NULL CONTAINS STARTSWITH ENDSWITH"
_KEYWORDS = {terminal.lstrip("_"): terminal for terminal in _KEYWORD_TERMINALS.split()}

# Letters are spelled out, since a flag for any case would let the Kelvin sign pass for a k. A line comment without an
# end of line is two minus signs, as in RocketMQ.
_GRAMMAR = r"""
start: disjunction
disjunction: conjunction (_OR conjunction)*
conjunction: equality (_AND equality)*
?equality: comparison
    | equality "=" comparison                               -> equal
    | equality "<>" comparison                              -> not_equal
    | equality _IS _NULL                                    -> is_null
    | equality _IS _NOT _NULL                               -> is_not_null
?comparison: unary
    | comparison (GREATER | GREATER_EQUAL | LESS | LESS_EQUAL) unary  -> ordering
    | comparison _BETWEEN unary _AND unary                  -> between
    | comparison _NOT _BETWEEN unary _AND unary             -> not_between
    | comparison _IN "(" STRING ("," STRING)* ")"           -> is_in
    | comparison _NOT _IN "(" STRING ("," STRING)* ")"      -> is_not_in
    | comparison (CONTAINS | STARTSWITH | ENDSWITH) STRING  -> search
    | comparison _NOT (CONTAINS | STARTSWITH | ENDSWITH) STRING  -> search_not
?unary: "+" unary
    | "-" unary                                             -> negate
    | _NOT unary                                            -> negation
    | primary
?primary: STRING                                            -> string
    | DECIMAL                                               -> decimal
    | FLOATING_POINT                                        -> floating_point
    | _TRUE                                                 -> true
    | _FALSE                                                -> false
    | _NULL                                                 -> null
    | WORD                                                  -> property
    | "(" disjunction ")"

GREATER: ">"
GREATER_EQUAL: ">="
LESS: "<"
LESS_EQUAL: "<="
STRING: /'(?:''|[^'])*'/
FLOATING_POINT.1: /[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+/
DECIMAL: /0|[1-9][0-9]*[lL]?/
WORD: /[A-Za-z_$][A-Za-z0-9_$]*/
BLANK: /[ \t\n\r\f]+/
LINE_COMMENT.1: /--[^\n\r]*(?:\r\n|\n|\r)/
BLOCK_COMMENT: /\/\*[^*]*\*(?:\*|[^*\/][^*]*\*)*\//
%ignore BLANK
%ignore LINE_COMMENT
%ignore BLOCK_COMMENT
"""


class _Actions:
    """What each rule of the grammar makes of its children, under the rule's name."""

    def start(self, children: list[Expression]) -> Expression:
        return sql92.condition_from(children[0])

    def disjunction(self, children: list[Expression]) -> Expression:
        return _chain(True, children)

    def conjunction(self, children: list[Expression]) -> Expression:
        return _chain(False, children)

    def equal(self, children: list[Expression]) -> Expression:
        return sql92.equal(*children)

    def not_equal(self, children: list[Expression]) -> Expression:
        return sql92.Not(sql92.equal(*children))

    def is_null(self, children: list[Expression]) -> Expression:
        return sql92.Equal(children[0], Constant(None))

    def is_not_null(self, children: list[Expression]) -> Expression:
        return sql92.Not(self.is_null(children))

    def ordering(self, children: list[Any]) -> Expression:
        left, symbol, right = children
        return sql92.ordering(str(symbol), left, right)

    def between(self, children: list[Expression]) -> Expression:
        return sql92.between(*children)

    def not_between(self, children: list[Expression]) -> Expression:
        return sql92.not_between(*children)

    def is_in(self, children: list[Any]) -> Expression:
        return sql92.is_in(children[0], list(map(_text, children[1:])), negated=False)

    def is_not_in(self, children: list[Any]) -> Expression:
        return sql92.is_in(children[0], list(map(_text, children[1:])), negated=True)

    def search(self, children: list[Any]) -> Expression:
        operand, symbol, text = children
        return sql92.Search(symbol.type, operand, _text(text), negated=False)

    def search_not(self, children: list[Any]) -> Expression:
        operand, symbol, text = children
        return sql92.Search(symbol.type, operand, _text(text), negated=True)

    def negate(self, children: list[Expression]) -> Expression:
        return sql92.Negate(*children)

    def negation(self, children: list[Expression]) -> Expression:
        return sql92.Not(sql92.condition_from(children[0]))

    def string(self, children: list[Token]) -> Expression:
        return Constant(_text(children[0]))

    def decimal(self, children: list[Token]) -> Expression:
        return sql92.decimal(str(children[0]))

    def floating_point(self, children: list[Token]) -> Expression:
        return sql92.floating_point(str(children[0]))

    def true(self, children: list[Token]) -> Expression:
        return Constant(True)

    def false(self, children: list[Token]) -> Expression:
        return Constant(False)

    def null(self, children: list[Token]) -> Expression:
        return Constant(None)

    def property(self, children: list[Token]) -> Expression:
        return sql92.Property(str(children[0]))


def _chain(decisive: bool, operands: list[Expression]) -> Expression:
    if len(operands) == 1:
        return operands[0]
    return sql92.Logic(decisive, list(map(sql92.condition_from, operands)))


def _text(literal: Token) -> str:
    return literal[1:-1].replace("''", "'")


def _keyword_or_name(word: Token) -> Token:
    keyword = _KEYWORDS.get(word.upper())
    return word.update(type=keyword) if keyword else word


@functools.cache
def _parser() -> Lark:
    """Made for the first SQL expression, since reading the grammar would delay every start."""
    from lark import Lark, Transformer

    class Actions(_Actions, Transformer[Any, Expression]):
        pass

    return Lark(
        f"{_GRAMMAR}%declare {_KEYWORD_TERMINALS}\n",
        parser="lalr",
        lexer="basic",
        transformer=Actions(),
        lexer_callbacks={"WORD": _keyword_or_name},
        maybe_placeholders=False,
    )


def parse(expression: str) -> Expression:
    """Reads the longest condition that ``expression`` begins with; what follows it is ignored, as RocketMQ does.

    Raises IllegalFilterExpression where RocketMQ's parser does, and above ``sql92.NESTING_MAX``.
    """
    from lark import Token
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    parser = _parser().parse_interactive(expression)
    end = encountered = '"<EOF>"'
    try:
        for token in parser.iter_parse():
            encountered = f'"{token}" at line {token.line}, column {token.column}'
        encountered = end
    except UnexpectedCharacters as error:
        place = f"line {error.line}, column {error.column}"
        raise sql92.refusal(f'Lexical error at {place}.  Encountered: "{error.char}"') from None
    except UnexpectedToken:
        pass  # harmless after a complete expression, which only the end can tell
    try:
        tree: Expression = parser.feed_token(Token("$END", ""))
    except UnexpectedToken:
        raise sql92.refusal(f"Encountered {encountered}") from None
    return tree
