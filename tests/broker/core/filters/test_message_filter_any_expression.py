"""Filter expressions of any text, up to the longest: each selects rows, or is refused; and costs a bounded time."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.filters.message_filter import EXPRESSION_LENGTH_MAX, parse_filter
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Message, StoredMessage
from tests.harness.hostile_input import limit_cpu, repeat

ROWS = columns.from_rows(
    [
        StoredMessage(Message(b"x", "ID", tags="a", properties={"a": "5", "b": "text"}), 0, 1_000, "host"),
        StoredMessage(Message(b"x", "ID", properties={"a": "9" * 400, "\0": ""}), 1, 1_000, "host"),
        StoredMessage(Message(b"x", "ID", tags="||"), 2, 1_000, "host"),
    ]
)
PARTS = (
    *(
        "(",
        ")",
        "NOT ",
        "- ",
        "+",
        "a",
        "a AND ",
        "a OR ",
        "a = 5 AND ",
        "b IN ('x',",
        "'x',",
        "'",
        '"',
        "/*",
        "--",
        "\n",
    ),
    *(
        "a BETWEEN 1 AND ",
        "a > ",
        "9",
        "0",
        ".",
        "e",
        "1e308 ",
        "5L ",
        "IS NULL ",
        "TRUE = ",
        "CONTAINS ",
        "\0",
        "€",
    ),
    *("||", "a||", " ", "*", "|", "a STARTSWITH 'a' OR "),
)
TEXTS = st.text(max_size=20) | repeat(PARTS, (10, 500, EXPRESSION_LENGTH_MAX, EXPRESSION_LENGTH_MAX + 100))


@pytest.mark.edge
@given(st.sampled_from(("TAG", "SQL92", "SQL92", "", "XPATH")), TEXTS)
@example("SQL92", "(" * 16_000 + "a" + ")" * 16_000)
@example("SQL92", "NOT " * 8_000 + "a")
@example("SQL92", "a = 1" + "9" * 30_000)
@example("TAG", "a||" * 10_000)
@limit_cpu
def test_any_expression_selects_rows_or_is_refused(expression_type: str, expression: str) -> None:
    try:
        chosen = parse_filter(expression_type, expression)
    except BrokerError:
        return
    mask = chosen.mask(ROWS)
    assert mask is None or (len(mask), mask.type) == (ROWS.num_rows, pa.bool_())
    assert chosen.matches_any(ROWS) == (mask is None or True in mask.to_pylist())
