"""Options with any names and values: a query starts with what they say, or is refused with the name of an option."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqpull.options import sink, source
from pyspark_rmqpull.options.declaration import Mode
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.options.source import SourceOptions
from rmqpull_client.errors import OptionError
from tests.harness.hostile_input import limit_cpu, repeat

NAMES = sorted({option.name for option in (*source.OPTIONS, *sink.OPTIONS)})
PARTS = (
    "[",
    "{",
    '{"orders":',
    '{"a":{"0":',
    '"',
    "\\",
    ",",
    "|",
    "(",
    "*",
    "+",
    "(a+)+",
    "orders",
    "9",
    "-",
    ";",
    ":",
    "\0",
)
VALUES = (
    st.sampled_from(
        (
            *("", " ", "0", "1", "-1", "-2", "+5", "1.5", "1e3", "9" * 30, "9" * 5_000, "true", "FALSE", "yes", "none"),
            *("127.0.0.1:8081", "[::1]:9876", "host", ":1", "host:0", "host:65536", "http://host:1", "a;b", "a,b", ","),
            *(
                "orders",
                "orders,",
                "%RETRY%readers",
                "latest",
                "earliest",
                "group",
                "TAG",
                "SQL92",
                "a > 5",
                "*",
                "(",
                "[]",
            ),
            *('{"orders":{"broker-a":{"0":1}}}', '{"orders":{"broker-a":{"0":1.5}}}', '{"orders":1}', "{}", "null"),
            *('{"orders":{"broker-a":{"0":1,"0":2}}}', "2020-01-01T00:00:00Z", "1970", "10s", "5m", "1 hour", "\ud800"),
            *(
                "rows",
                "AVG",
                "/etc",
                "/dev/null",
                "\n",
                "\t5",
                "\uff11\uff12",
                "\u0663",
                "NaN",
                "Infinity",
                "0x10",
                "1_000",
            ),
        )
    )
    | st.text(max_size=8)
    | repeat(PARTS, (10, 1_000, 40_000))
)
START = st.sampled_from(
    (
        {"endpoints": "127.0.0.1:8081", "topic": "orders"},
        {"nameServers": "127.0.0.1:9876", "topic": "orders"},
        {"endpoints": "127.0.0.1:8081", "topicPattern": "o.*", "consumerGroup": "readers"},
        {},
    )
)
GIVEN = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=8), VALUES, max_size=4)


@pytest.mark.edge
@given(START, GIVEN, st.sampled_from((SourceOptions, SinkOptions)), st.sampled_from((None, *Mode)))
@limit_cpu
def test_any_options_are_taken_or_refused(
    start: dict[str, str], given_options: dict[str, str], kind: type[SourceOptions | SinkOptions], mode: Mode | None
) -> None:
    secret = given_options.get("secretKey", "")
    try:
        shown = repr(kind.from_options({**start, **given_options}, mode))
        is_taken = True
    except OptionError as refused:
        shown, is_taken = str(refused), False
    assert is_taken or re.search(r"\b(option|endpoints|nameServers|topic)", shown, re.IGNORECASE)
    if len(secret) > 8 and secret not in map(str, [*start.values(), *given_options.keys()]):
        others = [value for name, value in given_options.items() if name != "secretKey"]
        assert secret not in shown or any(secret in other for other in others)
