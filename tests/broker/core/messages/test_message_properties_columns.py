"""Message properties as columns."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.messages.message_properties import find_combinations, make_property_column
from rmqpull_broker.core.model import Message, StoredMessage

FULL = Message(
    b"",
    "ID",
    tags="t",
    keys=("k1", "k2"),
    properties={"a": "5", "e": ""},
    message_group="g",
    delivery_timestamp_ms=1_700_000_000_123,
    born_timestamp_ms=1_600_000_000_456,
    born_host="10.0.0.1",
    trace_context="trace",
)
BARE = Message(b"", "", born_host="")


def stored(*messages: Message) -> pa.RecordBatch:
    return columns.from_rows([StoredMessage(message, 0, 0, "") for message in messages])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a", "5"),
        ("e", None),
        ("A", None),
        ("TAGS", "t"),
        ("KEYS", "k1 k2"),
        ("UNIQ_KEY", "ID"),
        ("__SHARDINGKEY", "g"),
        ("__BORNHOST", "10.0.0.1"),
        ("TIMER_DELIVER_MS", "1700000000123"),
        ("TRACE_CONTEXT", "trace"),
        ("tags", None),
    ],
)
def test_a_property_is_where_its_name_says_and_an_empty_one_is_missing(name: str, text: str | None) -> None:
    assert make_property_column(stored(FULL, BARE), name).to_pylist() == [text, None]


def test_the_time_of_birth_is_text_in_milliseconds() -> None:
    """A message that came by the remoting protocol has no such property."""
    assert make_property_column(stored(FULL, BARE), "BORN_TIMESTAMP").to_pylist() == ["1600000000456", None]
    by_proxy = replace(BARE, born_host="10.0.0.1:5555", system_properties={"__BORNHOST": "laptop"})
    by_remoting = replace(BARE, born_host="10.0.0.1:5555")
    hosts = make_property_column(stored(by_proxy, FULL, by_remoting), "__BORNHOST")
    assert hosts.to_pylist() == ["laptop", "10.0.0.1", None]


def test_properties_of_rocketmq_without_a_column_are_seen_too() -> None:
    batch = stored(FULL, BARE)
    index = batch.schema.get_field_index("systemProperties")
    maps = pa.array([[("REAL_TOPIC", "orders")], None], batch.schema.field(index).type)
    batch = batch.set_column(index, batch.schema.field(index), maps)
    assert make_property_column(batch, "REAL_TOPIC").to_pylist() == ["orders", None]
    assert make_property_column(batch, "a").to_pylist() == ["5", None]


def test_a_slice_has_the_properties_of_its_own_rows() -> None:
    batch = stored(*(Message(b"", str(i), keys=(f"k{i}",), properties={"n": str(i)}) for i in range(5)))
    for name, texts in [("n", ["2", "3"]), ("KEYS", ["k2", "k3"]), ("UNIQ_KEY", ["2", "3"])]:
        assert make_property_column(batch.slice(2, 2), name).to_pylist() == texts


@given(
    st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[st.sampled_from([None, "", "a", "b", "c"])] * width)))
)
def test_every_row_has_one_of_the_distinct_combinations(rows: list[tuple[str | None, ...]]) -> None:
    width = len(rows[0]) if rows else 2
    found = find_combinations([pa.array([row[i] for row in rows], pa.string()) for i in range(width)])
    distinct = list(found.rows())
    assert sorted(distinct, key=repr) == sorted(set(rows), key=repr)
    assert [distinct[index] for index in found.row_combinations.to_pylist()] == rows
