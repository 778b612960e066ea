"""Filter expressions over columns (rules 3.12, 6.1)."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.errors import BrokerError, FilterNotSupported, IllegalFilterExpression
from rmqpull_broker.core.filters import message_filter
from rmqpull_broker.core.filters.message_filter import (
    EVERYTHING,
    EXPRESSION_LENGTH_MAX,
    NOTHING,
    SQL92,
    TAG,
    FilterTooComplex,
    MessageFilter,
    SqlFilter,
    TagFilter,
    check_filter_supported,
    make_pull_filter,
    parse_filter,
    parse_tags,
)
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Message, StoredMessage
from rmqpull_broker.core.sending.queue_selection import hash_like_java
from rmqpull_proto.filters import sql92_grammar
from rmqpull_proto.filters.java_values import NotComparable
from rmqpull_proto.filters.sql92 import NESTING_MAX, Expression
from rmqpull_proto.filters.sql92_grammar import parse

TAGS = ["a", "b", "*", "", None]
BATCH = pa.record_batch({"tags": pa.array(TAGS, pa.string())})


def kept(message_filter: MessageFilter, batch: pa.RecordBatch = BATCH, column: str = "tags") -> list[str | None]:
    mask = message_filter.mask(batch)
    values: list[str | None] = (batch if mask is None else batch.filter(mask))[column].to_pylist()
    return values


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("", TAGS),
        ("*", TAGS),
        ("a", ["a"]),
        (" a ", ["a"]),
        ("a||b", ["a", "b"]),
        ("a || b", ["a", "b"]),
        ("b || a || b", ["a", "b"]),
        ("a ||", ["a"]),
        ("|| a", ["a"]),
        ("a || || b", ["a", "b"]),
        ("a || *", ["a", "*"]),
        (" * ", ["*"]),
        ("A", []),
        ("a b", []),
        ("a | b", []),
        ("a && b", []),
        ("!a", []),
        ("   ", []),
        (" || ", []),
        ("\u00a0a", []),
    ],
)
def test_a_tag_expression_keeps(expression: str, tags: list[str | None]) -> None:
    assert kept(parse_filter(TAG, expression)) == tags


@pytest.mark.proves("Tags")
def test_tags_with_the_same_hash_are_distinguished() -> None:
    assert hash_like_java("Aa") == hash_like_java("BB")
    batch = pa.record_batch({"tags": ["Aa", "BB"]})
    assert kept(parse_tags("Aa"), batch) == ["Aa"]


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_nothing_but_separators_is_no_expression(expression: str) -> None:
    with pytest.raises(IllegalFilterExpression, match="subString split error"):
        parse_filter(TAG, expression)


@pytest.mark.parametrize(
    ("wanted", "first_row", "matches"),
    [
        (EVERYTHING, 0, True),
        (EVERYTHING, len(TAGS), False),
        (TagFilter(frozenset({"b"})), 0, True),
        (TagFilter(frozenset({"b"})), 2, False),
        (NOTHING, 0, False),
    ],
)
@pytest.mark.parametrize("few_rows", [0, 32], ids=["in columns", "as a set"])
def test_a_batch_matches_when_one_of_its_rows_does(
    wanted: TagFilter, first_row: int, matches: bool, few_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_filter, "FEW_ROWS", few_rows)
    assert wanted.matches_any(BATCH.slice(first_row)) is matches


ORDERS = columns.from_rows(
    [
        StoredMessage(message, offset, 0, "host")
        for offset, message in enumerate(
            [
                Message(b"", "0", tags="new", properties={"region": "east", "amount": "5"}),
                Message(b"", "1", tags="new", keys=("k1", "k2"), properties={"region": "west", "amount": "50"}),
                Message(b"", "2", tags="paid", properties={"region": "east", "amount": "a lot"}),
                Message(b"", "3", properties={"region": "", "amount": "5.5"}, message_group="g"),
            ]
        )
    ]
)


@pytest.mark.parametrize(
    ("expression", "ids"),
    [
        ("region = 'east'", "02"),
        ("region = 'east' AND amount < 10", "0"),
        ("amount < 10", "0"),
        ("amount < 10.5", "03"),
        ("region IS NULL", "3"),
        ("region CONTAINS 'st' AND NOT (TAGS = 'paid')", "01"),
        ("TAGS IS NULL AND __SHARDINGKEY = 'g'", "3"),
        ("KEYS = 'k1 k2' OR UNIQ_KEY IN ('2', '9')", "12"),
        ("region = TAGS", "3"),  # both are missing
        ("TRUE", "0123"),
        ("5 > 6", ""),
        ("body IS NULL", "0123"),
    ],
)
def test_a_sql_expression_keeps(expression: str, ids: str) -> None:
    sql_filter = parse_filter(SQL92, expression)
    assert kept(sql_filter, ORDERS, "msgId") == list(ids)
    assert sql_filter.matches_any(ORDERS) is bool(ids)
    assert kept(sql_filter, ORDERS.slice(1, 2), "msgId") == [i for i in ids if i in "12"]
    assert not sql_filter.matches_any(ORDERS.slice(4))


def test_filters_of_the_same_expression_share_a_verdict() -> None:
    filters = [parse_tags("a || b"), parse_tags("b||a"), SqlFilter("a = 1"), SqlFilter("a = 1"), SqlFilter("a = 2")]
    assert len(set(filters)) == 3


def test_only_a_filter_without_tags_and_expression_keeps_everything() -> None:
    filters = (EVERYTHING, NOTHING, SqlFilter("TRUE"))
    assert [message_filter.keeps_everything for message_filter in filters] == [True, False, False]


@pytest.mark.parametrize(
    ("expression_type", "expression", "words"),
    [
        (SQL92, "a >", "Invalid MessageSelector"),
        (SQL92, "", "Invalid MessageSelector"),
        (TAG, "a" * (EXPRESSION_LENGTH_MAX + 1), "has 32769 characters, more than the max of 32768"),
        (SQL92, "a" * (EXPRESSION_LENGTH_MAX + 1), "has 32769 characters, more than the max of 32768"),
        ("sql92", "a = 1", "unknown expression type 'sql92': expected TAG or SQL92"),
    ],
)
@pytest.mark.proves("Malformed SQL92, or an unknown expression type, in PullMessage and `rmqpull.v1`")
def test_an_expression_that_cannot_be_read_is_refused(expression_type: str, expression: str, words: str) -> None:
    with pytest.raises(IllegalFilterExpression, match=words):
        parse_filter(expression_type, expression)


@pytest.mark.proves("Depth of a SQL92 expression")
def test_a_deep_expression_is_refused() -> None:
    assert parse_filter(SQL92, "NOT " * (NESTING_MAX - 3) + "a = 1").node_count == NESTING_MAX + 1
    with pytest.raises(FilterTooComplex, match="nested deeper than 100 levels") as refusal:
        parse_filter(SQL92, "NOT " * (NESTING_MAX - 2) + "a = 1")
    assert refusal.value.code == "ILLEGAL_FILTER_EXPRESSION"


def test_the_longest_expression_is_read() -> None:
    assert kept(SqlFilter("a IS NULL".ljust(EXPRESSION_LENGTH_MAX)), ORDERS, "msgId") == list("0123")


def test_without_the_property_filter_only_tags_are_served() -> None:
    check_filter_supported(TAG, False)
    check_filter_supported(SQL92, True)
    with pytest.raises(FilterNotSupported, match="The broker does not support consumer to filter message by SQL92"):
        check_filter_supported(SQL92, False)


FAILED = "23 parse the consumer's subscription failed"
NO_SQL = "1 The broker does not support consumer to filter message by SQL92"
EAST = SqlFilter("region = 'east'")


@pytest.mark.parametrize(
    ("expression_type", "expression", "outcome", "switched_off"),
    [
        (None, None, EVERYTHING, EVERYTHING),
        (None, "a", parse_tags("a"), parse_tags("a")),
        ("TAG", "", EVERYTHING, EVERYTHING),
        ("TAG", "a || b", parse_tags("a||b"), parse_tags("a||b")),
        ("TAG", "||", FAILED, FAILED),
        (None, "||", FAILED, FAILED),
        ("", "a", NOTHING, NOTHING),
        ("", "*", EVERYTHING, EVERYTHING),
        ("", "", FAILED, FAILED),
        ("SQL92", EAST.expression, EAST, "1 The broker does not support consumer to filter message by SQL92"),
        ("SQL92", "a >", EVERYTHING, "1 The broker does not support consumer to filter message by SQL92"),
        ("SQL92", "", FAILED, FAILED),
        ("SQL92", None, FAILED, FAILED),
        ("SQL92", "a IS NULL".ljust(EXPRESSION_LENGTH_MAX + 1), FAILED, NO_SQL),
        ("SQL92", "NOT " * NESTING_MAX + "a IS NULL", FAILED, NO_SQL),
        ("SQL92", "a = " + "-" * 30_000 + "5", FAILED, NO_SQL),
        ("XPATH", "a" * (EXPRESSION_LENGTH_MAX + 1), EVERYTHING, NO_SQL.replace("SQL92", "XPATH")),
        ("TAG", "a||" * EXPRESSION_LENGTH_MAX, FAILED, FAILED),
        ("sql92", "a = 1", EVERYTHING, "1 The broker does not support consumer to filter message by sql92"),
        ("tag", "a", EVERYTHING, "1 The broker does not support consumer to filter message by tag"),
        (" ", "a", EVERYTHING, "1 The broker does not support consumer to filter message by  "),
    ],
)
def test_the_subscription_that_a_pull_request_brings(
    expression_type: str | None,
    expression: str | None,
    outcome: MessageFilter | str,
    switched_off: MessageFilter | str,
) -> None:
    def answer(enable_property_filter: bool) -> MessageFilter | str:
        try:
            return make_pull_filter(expression_type, expression, enable_property_filter)
        except BrokerError as error:
            return f"{error.response_code} {error}"

    assert (answer(True), answer(False)) == (outcome, switched_off)


NAMES = ["a", "b", "c"]
TEXTS = st.sampled_from(["", "5", "-7", "3.5", "abc", "true", "NaN", " 5", "9999999999"]) | st.text(max_size=3)
LITERALS = st.sampled_from(["5", "3.5", "9999999999", "TRUE", "NULL", "'abc'", "'5'", "''"])
OPERANDS = st.recursive(
    st.sampled_from(NAMES) | LITERALS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["=", "<>", "<", ">=", "AND", "OR"]), inner).map(
            "({0[0]} {0[1]} {0[2]})".format
        ),
        inner.map("(NOT {})".format),
        inner.map("(- {})".format),
        inner.map("({} IS NULL)".format),
        inner.map("({} NOT CONTAINS 'b')".format),
        inner.map("({} IN ('5', 'abc'))".format),
        st.tuples(inner, inner).map("({0[0]} BETWEEN 3 AND {0[1]})".format),
    ),
    max_leaves=6,
)
ROWS = st.lists(st.dictionaries(st.sampled_from(NAMES), TEXTS), min_size=1, max_size=8)


@given(OPERANDS, ROWS)
def test_a_mask_says_of_each_row_what_evaluating_it_alone_says(expression: str, rows: list[dict[str, str]]) -> None:
    try:
        sql_filter = parse_filter(SQL92, expression)
    except IllegalFilterExpression:
        return

    def is_true(properties: dict[str, str]) -> bool:
        try:
            return parse(expression).evaluate({name: text for name, text in properties.items() if text}) is True
        except NotComparable:
            return False

    batch = columns.from_rows([StoredMessage(Message(b"", "", properties=row), 0, 0, "") for row in rows])
    mask = sql_filter.mask(batch)
    assert mask is not None
    assert mask.to_pylist() == [is_true(row) for row in rows]


@pytest.mark.parametrize("expression", ["kept = 1", "kept >", "(" * 10_000])
def test_an_expression_is_parsed_once_whether_it_is_refused_or_not(
    expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []

    def watch(text: str) -> Expression:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(sql92_grammar, "parse", watch)
    message_filter.forget_compiled()

    def compile_again() -> str:
        try:
            SqlFilter(expression)
        except IllegalFilterExpression as refusal:
            return f"{type(refusal).__name__} {refusal}"
        return "taken"

    assert compile_again() == compile_again()
    assert parsed == [expression]
