"""Parsers of option values: what they accept, and what they say of anything else."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pyspark_rmqpull.options.allocation import STRATEGIES
from pyspark_rmqpull.options.parsers import (
    addresses,
    duration_ms,
    integer,
    one_of,
    parse_addresses_of_brokers,
    parse_boolean,
    parse_consumers,
    parse_lite_topics,
    parse_names,
    parse_topic_pattern,
    parse_topics,
    resource_name,
    size_in_bytes,
)

strategy = one_of(*STRATEGIES)
delay = duration_ms(1, 365 * 24 * 3_600_000)
size = size_in_bytes(1, 2**63 - 1)
digit = integer(1, 9)
parse_endpoints = addresses("127.0.0.1:8081")


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (strategy, "AVG", "AVG"),
        (strategy, " machine_room_nearby ", "MACHINE_ROOM_NEARBY"),
        (parse_boolean, " True ", True),
        (digit, " 7 ", 7),
        (resource_name(3), "%a|", "%a|"),
        (parse_names, "body, tags", ("body", "tags")),
        (parse_topics, " orders ,sales", ("orders", "sales")),
        (parse_topics, "orders,%LMQ%of-7:x,%LMQ%$chats$alice", ("orders", "%LMQ%of-7:x", "%LMQ%$chats$alice")),
        (parse_lite_topics, "alice, b_0-B", ("alice", "b_0-B")),
        (parse_consumers, "c2, c1,c10", ("c1", "c10", "c2")),
        (parse_consumers, "192.168.0.2@1,192.168.0.10@1", ("192.168.0.10@1", "192.168.0.2@1")),
        (parse_endpoints, "127.0.0.1:8081", "127.0.0.1:8081"),
        (parse_endpoints, "broker.example.com:65535", "broker.example.com:65535"),
        (parse_endpoints, "[::1]:8081, localhost:1 ;[::1]:8081", "[::1]:8081;localhost:1"),
        (parse_addresses_of_brokers, "broker-a=[::1]:10911", "broker-a=[::1]:10911"),
    ],
)
def test_values_are_parsed(parse: Callable[[str], Any], text: str, value: Any) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("text", "in_ms"),
    [
        ("15m", 900_000),
        ("15min", 900_000),
        ("5s", 5_000),
        ("90 s", 90_000),
        (" 5S ", 5_000),
        ("250ms", 250),
        ("250", 250),
        ("1", 1),
        ("2500us", 2),
        ("2h", 7_200_000),
        ("1H", 3_600_000),
        ("365d", 31_536_000_000),
    ],
)
def test_durations_are_written_as_for_spark(text: str, in_ms: int) -> None:
    assert delay(text) == in_ms


@pytest.mark.parametrize(
    ("text", "in_bytes"),
    [("1", 1), ("7b", 7), ("512k", 512 << 10), ("2KB", 2 << 10), ("64m", 64 << 20), ("1gb", 1 << 30), ("3t", 3 << 40)],
)
def test_sizes_are_written_as_for_spark(text: str, in_bytes: int) -> None:
    assert size(text) == in_bytes


CONSUMERS = "Expected 1 to 10000 names in ASCII without spaces, separated by commas."


@pytest.mark.parametrize(
    ("parse", "text", "refusal"),
    [
        (strategy, "AVERAGE", "Did you mean AVG? Expected AVG, AVG_BY_CIRCLE, CONFIG, "),
        (strategy, "AVG_CIRCLE", "Did you mean AVG_BY_CIRCLE? Expected "),
        (strategy, "consistenthash", "Did you mean CONSISTENT_HASH? Expected "),
        (strategy, "MACHINE_ROOM_NEARBY-AVG", "Did you mean MACHINE_ROOM_NEARBY? Expected "),
        (strategy, "xyz", "Expected AVG, "),
        (strategy, "", "Expected AVG, "),
        *[(parse_boolean, bad, "Expected true or false.") for bad in ("", "yes", "1")],
        *[(digit, bad, "Expected an integer from 1 to 9.") for bad in ("", "0", "10", "-1", "1.0", "1e0", "²")],
        *[(resource_name(3), bad, "Expected 1 to 3 of the characters ") for bad in ("", "a b", "abcd", "a\n")],
        *[(parse_topics, bad, "Expected names separated by commas, ") for bad in ("", "a,,b", "a;b", "x" * 128)],
        (parse_topics, "a, b,a", "It names 'a' twice."),
        *[
            (parse_topics, bad, "Expected light message queues such as %LMQ%orders-of-7 ")
            for bad in ("%LMQ%", "%LMQ%a/b", "%LMQ%a b", "%LMQ%$a", "%LMQ%$a$", "%LMQ%$a$b$c")
        ],
        *[(parse_lite_topics, bad, "Expected names separated by commas, each 1 to 64 ") for bad in ("", "a$b", "a,,b")],
        (parse_lite_topics, "a,b,a", "It names 'a' twice."),
        *[(parse_consumers, bad, CONSUMERS) for bad in ("", "a,,b", "a b", "ä")],
        (parse_consumers, "a,b,a", "It names a twice."),
        (parse_topic_pattern, "(", "It is not a regular expression of Python ("),
        (parse_topic_pattern, "", "It is empty, so it matches no topic."),
    ],
)
def test_bad_values_are_refused(parse: Callable[[str], Any], text: str, refusal: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(refusal)}"):
        parse(text)
