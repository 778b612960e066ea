"""A few messages encoded one by one are the records of columns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.messages.hidden_properties import hide_flags
from rmqpull_broker.core.messages.message_properties import count_record_bytes, make_common_properties
from rmqpull_broker.core.messages.row_records import encode_rows
from rmqpull_broker.core.messages.stored_records import encode_records
from rmqpull_broker.core.model import BodyEncoding, Message, StoredMessage
from rmqpull_broker.core.properties import BrokerProperties

BROKER = BrokerProperties()
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02 "), min_size=1, max_size=8)
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
    properties=st.dictionaries(TEXT.map(lambda text: f"u{text}"), TEXT, max_size=3),
    message_group=st.none() | TEXT,
    delivery_timestamp_ms=st.none() | TIMES_MS,
    born_timestamp_ms=TIMES_MS,
    born_host=HOSTS,
    body_encoding=st.sampled_from(BodyEncoding),
    trace_context=st.none() | TEXT,
    system_properties=st.builds(lambda own, hidden: {**own, **hidden}, OWN, HIDDEN),
)
STORED = st.builds(StoredMessage, MESSAGES, st.just(0), TIMES_MS, st.sampled_from(["127.0.0.1:9", "[::1]:9"]))


@given(st.lists(STORED, min_size=1, max_size=5), st.sampled_from(["t", "t" * 127, "\u00e4" * 64]))
def test_rows_and_columns_give_the_same_records(messages: list[StoredMessage], topic: str) -> None:
    rows = [
        StoredMessage(row.message, 7 + index, row.store_timestamp_ms, row.store_host, index)
        for index, row in enumerate(messages)
    ]
    batch = columns.from_rows(rows)
    expected = encode_records(batch, topic, 3, 5_000, make_common_properties(BROKER))
    found = encode_rows(rows, topic, 3, 5_000, BROKER)
    assert bytes(found.data) == bytes(expected.data)
    assert found[1:] == expected[1:]
    sizes = [found.ends[index + 1] - found.ends[index] for index in range(len(rows))]
    assert sizes == count_record_bytes(batch, topic, BROKER).to_pylist()
