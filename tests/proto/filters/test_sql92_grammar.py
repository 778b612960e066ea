"""How SQL92 expressions are read (rules 3.13.1, 3.13.2), and in which words they are refused."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_proto.filters import sql92_grammar
from rmqpull_proto.filters.sql92 import MalformedExpression, TooComplex
from rmqpull_proto.filters.sql92_grammar import TOKENS_MAX, parse
from tests.harness.hostile_input import limit_cpu


@pytest.mark.parametrize(
    ("expression", "read"),
    [
        # precedence, from low to high
        ("a OR b AND c", "(a || (b && c))"),
        ("a OR b OR c", "((a || b) || c)"),
        ("(a OR b) AND c", "((a || b) && c)"),
        ("a AND b = 1", "(a && (b == 1))"),
        ("a = b = c", "((a == b) == c)"),
        ("a = b IS NULL", "((a == b) == NULL)"),
        ("TRUE = a > 1", "(TRUE == (a > 1))"),
        ("NOT a = 5", "((NOT a) == 5)"),
        ("- a > + 3", "((- a) > 3)"),
        ("a BETWEEN 1 AND 2 AND b", "(((a >= 1) && (a <= 2)) && b)"),
        # words in any case, names in their own
        ("a Is nOt Null And Not B", "((NOT (a == NULL)) && (NOT B))"),
        ("android AND a_$9", "(android && a_$9)"),
        ("a contains 'x' AND b not startswith 'y'", "((CONTAINS a) && (NOT STARTSWITH b))"),
        # literals
        ("a = 5l AND a = 9223372036854775807L", "((a == 5) && (a == 9223372036854775807))"),
        ("a = .5 OR a = 12. OR a = 1.5e-3", "(((a == 0.5) || (a == 12.0)) || (a == 0.0015))"),
        ("a = '' OR a = '''' OR a = 'it''s'", "(((a == '') || (a == '''')) || (a == 'it''s'))"),
        # lists
        ("a IN ('x')", "a IN ( x )"),
        ("a NOT IN\n( 'it''s' ,\t'y','''' )", "a NOT IN ( it's, y, ' )"),
        ("a IN ( /* c */ 'x', 'y' /* c */ , 'z','w')", "a IN ( x, y, z, w )"),
        # blanks and comments
        ("\t\r\n\fa\n=/* \n*/1/**/", "(a == 1)"),
        ("-- c\na = 5 -- d\r\nAND b", "((a == 5) && b)"),
        ("/* -- */ a", "a"),
        # what follows a complete expression
        ("a = 5 -- c", "(a == 5)"),
        ("a = 5 garbage ###", "(a == 5)"),
        ("a LIKE 'x'", "a"),
        ("a = 007", "(a == 0)"),
    ],
)
def test_an_expression_is_read_as(expression: str, read: str) -> None:
    assert str(parse(expression)) == read


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("", 'Encountered "<EOF>"'),
        ("a = 5 AND", 'Encountered "<EOF>"'),
        ("a IN ('x','y'", 'Encountered "<EOF>"'),
        ("a IN ('x','y',)", 'Encountered ")" at line 1, column 15'),
        ("a IN ('x' 'y')", "Encountered \"'y'\" at line 1, column 11"),
        ("a IN ('x', y)", 'Encountered "y" at line 1, column 12'),
        ("a IN ('x','y)", 'Lexical error at line 1, column 11.  Encountered: "\'"'),
        ("a = 5 AND\n OR b", 'Encountered "OR" at line 2, column 2'),
        ("a == 5", 'Encountered "=" at line 1, column 4'),
        ("a IN (5)", 'Encountered "5" at line 1, column 7'),
        ("a != 5", 'Lexical error at line 1, column 3.  Encountered: "!"'),
        ('b = "abc"', 'Lexical error at line 1, column 5.  Encountered: """'),
        ("a = 5 #", 'Lexical error at line 1, column 7.  Encountered: "#"'),
        ("5", "Expression will not result in a boolean value: 5"),
        ("NOT 'a'", "Expression will not result in a boolean value: 'a'"),
        ("a AND -b", "Expression will not result in a boolean value: (- b)"),
        ("a > 'x'", "Value ''x'' cannot be compared."),
        ("a > TRUE", "Value 'TRUE' cannot be compared."),
        ("(a = 5) > 3", "Value '(a == 5)' cannot be compared."),
        ("a = NULL", "'NULL' cannot be compared."),
        ("TRUE = 'true'", "'TRUE' cannot be compared with ''true''"),
        ("5 IN ('5')", "Expected a property for In expression, got: 5"),
        ("a BETWEEN NULL AND 3", "Illegal values of between, values can not be null!"),
        (
            "a BETWEEN 7 AND 3",
            "Illegal values of between, left value(7) must less than or equal to right value(3)",
        ),
        ("a BETWEEN 'x' AND 5", 'For input string: "x"'),
        ("a = 9223372036854775808", 'For input string: "9223372036854775808"'),
        ("a = 1e999", "1e999 is greater than 1.7976931348623157E308"),
        ("a = 0.0", "0.0 is less than 4.9E-324"),
    ],
)
def test_an_expression_is_refused_in_the_words_of_rocketmq(expression: str, cause: str) -> None:
    with pytest.raises(MalformedExpression) as refusal:
        parse(expression)
    assert str(refusal.value) == f"Invalid MessageSelector. {cause}"


def test_parentheses_nest_deeper_than_anything_else() -> None:
    assert str(parse("(" * 2_000 + "a" + ")" * 2_000)) == "a"


WORDS = "a NOT AND OR BETWEEN IN TRUE IS NULL CONTAINS 'x' 5 0.0 1e3 ( ) , = <> < >= + - -- /* */ # '"
PIECES = st.sampled_from([*WORDS.split(), "\n", "\xa0"])


@pytest.mark.edge
@given(st.text() | st.lists(PIECES).map(" ".join))
@limit_cpu
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        tree = parse(text)
    except MalformedExpression:
        return
    assert tree.is_boolean


@pytest.mark.parametrize(
    ("expression", "token_count"),
    [
        ("(" * 16_000 + "a" + ")" * 16_000, TOKENS_MAX + 1),
        ("+" * TOKENS_MAX + "a", TOKENS_MAX + 1),
        ("a IN (" + ",".join(["'x'"] * TOKENS_MAX) + ")", 4),  # the list is one token
    ],
)
def test_an_expression_that_takes_long_is_read_no_further_than_its_limits(
    expression: str, token_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanned: list[str] = []
    scan = sql92_grammar._scan

    def watch(text: str) -> Iterator[tuple[str, str, int]]:
        for token in scan(text):
            scanned.append(token[1])
            yield token

    monkeypatch.setattr(sql92_grammar, "_scan", watch)
    with pytest.raises(TooComplex, match=f"more than {TOKENS_MAX} words and signs"):
        parse(expression)
    assert len(scanned) == token_count


def test_the_longest_expression_is_read() -> None:
    assert str(parse("+" * (TOKENS_MAX - 1) + "a")) == "a"
    texts = [f"'{number}'" for number in range(TOKENS_MAX // 2 - 2)]
    assert str(parse(f"a IN ({','.join(texts)})")) == f"a IN ( {', '.join(texts)} )".replace("'", "")
    with pytest.raises(TooComplex):
        parse(f"a IN ({','.join(texts)},'last')")


def test_what_follows_the_expression_has_no_limit() -> None:
    assert str(parse("a b" + "(" * 10_000)) == "a"
