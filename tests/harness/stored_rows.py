"""Stored messages as Hypothesis makes them, with everything that a record of the remoting protocol can hold."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from rmqpull_broker.core.messages.hidden_properties import hide_flags
from rmqpull_broker.core.model import BodyEncoding, Message, StoredMessage

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02 "), min_size=1, max_size=8)
NAMES = TEXT.map(lambda text: f"u{text}") | st.sampled_from(["__SHARDINGKEY", "TRACE_CONTEXT"])
"""A user may set two of RocketMQ's own properties. Then those of the message replace them."""
TIMES_MS = st.integers(0, 1 << 42)
HOSTS = st.sampled_from(["127.0.0.1:5555", "[2001:db8::1]:80", "10.0.0.9", "2001:db8::1", ""])
HIDDEN = st.builds(hide_flags, st.integers(-(1 << 31), (1 << 31) - 1), st.sampled_from([0, 2, 0x80]))
OWN = st.dictionaries(st.sampled_from(["WAIT", "PGROUP"]), TEXT)

MESSAGES = st.builds(
    Message,
    st.binary(max_size=50),
    st.sampled_from(["", "AB12", "0102"]),
    tags=st.none() | TEXT,
    keys=st.lists(TEXT, max_size=3).map(tuple),
    properties=st.dictionaries(NAMES, TEXT, max_size=3),
    message_group=st.none() | TEXT,
    delivery_timestamp_ms=st.none() | TIMES_MS,
    born_timestamp_ms=TIMES_MS,
    born_host=HOSTS,
    body_encoding=st.sampled_from(BodyEncoding),
    trace_context=st.none() | TEXT,
    system_properties=st.builds(lambda own, hidden: {**own, **hidden}, OWN, HIDDEN),
)
ROWS = st.builds(
    StoredMessage, MESSAGES, st.just(0), TIMES_MS, st.sampled_from(["127.0.0.1:9", "[::1]:9"]), st.integers(0, 100)
)


def number_rows(rows: list[StoredMessage]) -> list[StoredMessage]:
    """Returns the messages with consecutive queue offsets."""
    return [replace(row, queue_offset=7 + index) for index, row in enumerate(rows)]


QUEUES = st.lists(ROWS, min_size=1, max_size=5).map(number_rows)
"""The messages of one queue, from offset 7 on."""
