"""The grammar of SQL92 filter expressions (rules 3.13.1, 3.13.2); its rules act in ``sql92_rules``."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmqpull_broker.core.filters.sql92 import Expression, TooComplex, make_error
from rmqpull_broker.core.filters.sql92_rules import TEXT, Rules, list_texts

if TYPE_CHECKING:
    from lark import Lark

TOKENS_MAX = 4_096
"""Words, numbers, texts and signs of an expression: other calls wait while they are parsed."""

_KEYWORD_TERMINALS = "_AND _OR _NOT _BETWEEN _IN _TRUE _FALSE _IS _NULL CONTAINS STARTSWITH ENDSWITH"
_KEYWORDS = {terminal.lstrip("_"): terminal for terminal in _KEYWORD_TERMINALS.split()}

_SKIPPED = ("BLANK", "BLOCK_COMMENT", "LINE_COMMENT")

_GRAMMAR = r"""
start: disjunction
disjunction: conjunction (_OR conjunction)*
conjunction: equality (_AND equality)*
?equality: comparison
    | equality _EQUAL comparison                               -> equal
    | equality _NOT_EQUAL comparison                              -> not_equal
    | equality _IS _NULL                                    -> is_null
    | equality _IS _NOT _NULL                               -> is_not_null
?comparison: unary
    | comparison (GREATER | GREATER_EQUAL | LESS | LESS_EQUAL) unary  -> ordering
    | comparison _BETWEEN unary _AND unary                  -> between
    | comparison _NOT _BETWEEN unary _AND unary             -> not_between
    | comparison _IN _LEFT (TEXTS | STRING) (_COMMA STRING)* _RIGHT       -> is_in
    | comparison _NOT _IN _LEFT (TEXTS | STRING) (_COMMA STRING)* _RIGHT  -> is_not_in
    | comparison (CONTAINS | STARTSWITH | ENDSWITH) STRING  -> search
    | comparison _NOT (CONTAINS | STARTSWITH | ENDSWITH) STRING  -> search_not
?unary: _PLUS unary
    | _MINUS unary                                             -> negate
    | _NOT unary                                            -> negation
    | primary
?primary: STRING                                            -> string
    | DECIMAL                                               -> decimal
    | FLOATING_POINT                                        -> floating_point
    | _TRUE                                                 -> true
    | _FALSE                                                -> false
    | _NULL                                                 -> null
    | WORD                                                  -> property
    | _LEFT disjunction _RIGHT
"""


# Letters are spelled out: with a flag for any case, the Kelvin sign would match a k.
_TERMINALS = {
    "BLANK": r"[ \t\n\r\f]+",
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
_LIST = re.compile(rf"[ \t\n\r\f]*{TEXT}(?:[ \t\n\r\f]*,[ \t\n\r\f]*{TEXT})*")
"""The texts of IN, or the first of them, as one token: the parser takes ten times as long for each alone."""
_TOKEN = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _TERMINALS.items()))
_END_OF_LINE = re.compile(r"\r\n|\n|\r")
_DECLARED = " ".join([_KEYWORD_TERMINALS, "TEXTS", *(name for name in _TERMINALS if name not in _SKIPPED)])


def _scan(expression: str) -> Iterator[tuple[str, str, int]]:
    """Yields terminal, text and position of each token, in time linear to the length. Raises IllegalFilterExpression.

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


@functools.cache
def _parser() -> Lark:
    """Returns the parser. It is made for the first SQL expression, because it would delay every start."""
    from lark import Lark, Transformer, v_args

    rules = {name: rule for name, rule in vars(Rules).items() if not name.startswith("_")}
    transformer = v_args(inline=True)(type("Transformer", (Transformer,), rules))
    return Lark(
        f"{_GRAMMAR}%declare {_DECLARED}\n",
        parser="lalr",
        lexer="basic",
        transformer=transformer(),
        maybe_placeholders=False,
    )


def parse(expression: str) -> Expression:
    """Parses the longest condition at the start of ``expression``. Ignores the rest, like RocketMQ.

    Raises IllegalFilterExpression where RocketMQ's parser does, and TooComplex above ``sql92.NESTING_MAX`` levels and
    above ``TOKENS_MAX`` words and signs.
    """
    from lark import Token
    from lark.exceptions import UnexpectedToken

    parser = _parser().parse_interactive()
    rest, count = None, 0
    for terminal, text, at in _scan(expression):
        count += 2 * len(list_texts(text)) - 1 if terminal == "TEXTS" else 1
        if count > TOKENS_MAX:
            raise TooComplex(
                f"The expression has more than {TOKENS_MAX} words and signs; split it into several filters"
            )
        try:
            parser.feed_token(Token(terminal, text))
        except UnexpectedToken:
            rest = text, at  # not an error after a complete expression, which the end decides
            break
    try:
        tree: Expression = parser.feed_token(Token("$END", ""))
    except UnexpectedToken:
        encountered = '"<EOF>"' if rest is None else f'"{rest[0]}" at {_describe_place(expression, rest[1])}'
        raise make_error(f"Encountered {encountered}") from None
    return tree
