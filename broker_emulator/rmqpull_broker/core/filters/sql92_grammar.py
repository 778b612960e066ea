"""The grammar of SQL92 filter expressions (rules 3.13.1, 3.13.2); its rules act in ``sql92_rules``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from rmqpull_broker.core.filters.sql92 import Expression, make_error
from rmqpull_broker.core.filters.sql92_rules import Rules

if TYPE_CHECKING:
    from lark import Lark, Token

_KEYWORD_TERMINALS = "_AND _OR _NOT _BETWEEN _IN _TRUE _FALSE _IS _NULL CONTAINS STARTSWITH ENDSWITH"
_KEYWORDS = {terminal.lstrip("_"): terminal for terminal in _KEYWORD_TERMINALS.split()}

# Letters are spelled out: with a flag for any case, the Kelvin sign would match a k. A line comment without an end of
# line is two minus signs, like in RocketMQ.
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


def _keyword_or_name(word: Token) -> Token:
    keyword = _KEYWORDS.get(word.upper())
    return word.update(type=keyword) if keyword else word


@functools.cache
def _parser() -> Lark:
    """Returns the parser. It is made for the first SQL expression, because it would delay every start."""
    from lark import Lark, Transformer, v_args

    rules = {name: rule for name, rule in vars(Rules).items() if not name.startswith("_")}
    transformer = v_args(inline=True)(type("Transformer", (Transformer,), rules))
    return Lark(
        f"{_GRAMMAR}%declare {_KEYWORD_TERMINALS}\n",
        parser="lalr",
        lexer="basic",
        transformer=transformer(),
        lexer_callbacks={"WORD": _keyword_or_name},
        maybe_placeholders=False,
    )


def parse(expression: str) -> Expression:
    """Parses the longest condition at the start of ``expression``. Ignores the rest, like RocketMQ.

    Raises IllegalFilterExpression where RocketMQ's parser does, and above ``sql92.NESTING_MAX`` levels.
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
        where = f"line {error.line}, column {error.column}"
        raise make_error(f'Lexical error at {where}.  Encountered: "{error.char}"') from None
    except UnexpectedToken:
        pass  # not an error after a complete expression, which the end decides
    try:
        tree: Expression = parser.feed_token(Token("$END", ""))
    except UnexpectedToken:
        raise make_error(f"Encountered {encountered}") from None
    return tree
