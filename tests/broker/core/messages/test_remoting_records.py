"""Stored messages as records of the remoting protocol, which give the same rows again (rules 4.7)."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.messages.message_properties import count_record_bytes, make_common_properties
from rmqpull_broker.core.messages.remoting_records import encode_records
from rmqpull_broker.core.model import BodyEncoding, Message, StoredMessage
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_client.transports.remoting.messages.stored_columns import decode_columns
from rmqpull_client.transports.remoting.messages.stored_messages import locate_records
from rmqpull_proto.columns import PULLABLE_SCHEMA

BROKER = BrokerProperties()
COMMON = make_common_properties(BROKER)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02 "), min_size=1, max_size=8)
NAME = TEXT.map(lambda text: f"u{text}")


@st.composite
def stored_messages(draw: st.DrawFn) -> list[StoredMessage]:
    first = draw(st.integers(0, 1_000_000))
    return [
        StoredMessage(
            Message(
                draw(st.binary(max_size=50)),
                draw(st.sampled_from(["", "AB12", "0102"])),
                tags=draw(st.none() | TEXT),
                keys=tuple(draw(st.lists(TEXT, max_size=3))),
                properties=draw(st.dictionaries(NAME, TEXT, max_size=3)),
                message_group=draw(st.none() | TEXT),
                delivery_timestamp_ms=draw(st.none() | st.integers(0, 1 << 42)),
                born_timestamp_ms=draw(st.integers(0, 1 << 42)),
                born_host=draw(st.sampled_from(["127.0.0.1:5555", "[2001:db8::1]:80"])),
                body_encoding=BodyEncoding.IDENTITY,
                trace_context=draw(st.none() | TEXT),
                system_properties=draw(st.dictionaries(st.sampled_from(["WAIT", "PGROUP"]), TEXT, max_size=2)),
            ),
            first + number,
            draw(st.integers(0, 1 << 42)),
            draw(st.sampled_from(["127.0.0.1:10911", "[::1]:10911"])),
            draw(st.integers(0, 100)),
        )
        for number in range(draw(st.integers(1, 5)))
    ]


@given(stored_messages(), st.sampled_from(["t", "orders", "t" * 127, "t" * 128]))
def test_records_give_the_same_rows_again(rows: list[StoredMessage], topic: str) -> None:
    batch = columns.from_rows(rows)
    data, ends, body_ends, size_max = encode_records(batch, topic, 3, 5_000, COMMON)
    assert (len(data), body_ends[-1]) == (ends[-1], sum(len(row.message.body) for row in rows))
    assert size_max == max(np.diff(ends))
    assert np.diff(ends).tolist() == count_record_bytes(batch, topic, BROKER).to_pylist()
    table = locate_records(data, np.array([0]), np.array([len(data)]))
    assert table.damaged == ()
    assert table.positions.tolist() == list(ends[:-1])
    decoded = decode_columns(table, PULLABLE_SCHEMA.names)
    for name in ("queueOffset", "tags", "body", "bornTimestamp", "storeTimestamp", "reconsumeTimes", "messageGroup"):
        assert decoded.column(name).to_pylist() == batch.column(name).to_pylist(), name
    found = [dict(row or ()) for row in decoded.column("properties").to_pylist()]
    assert found == [dict(row.message.properties) for row in rows]
