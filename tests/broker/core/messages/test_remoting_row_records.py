"""A few messages encoded one by one are the records of columns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.messages.message_properties import count_record_bytes, make_common_properties
from rmqpull_broker.core.messages.remoting_records import encode_records
from rmqpull_broker.core.messages.remoting_row_records import encode_few_records
from rmqpull_broker.core.model import StoredMessage
from rmqpull_broker.core.properties import BrokerProperties
from tests.harness.stored_rows import QUEUES

BROKER = BrokerProperties()


@given(QUEUES, st.sampled_from(["t", "t" * 127, "\u00e4" * 64]))
def test_rows_and_columns_give_the_same_records(rows: list[StoredMessage], topic: str) -> None:
    batch = columns.from_rows(rows)
    expected = encode_records(batch, topic, 3, 5_000, make_common_properties(BROKER))
    found = encode_few_records(rows, topic, 3, 5_000, BROKER)
    assert bytes(found.data) == bytes(expected.data)
    assert found[1:] == expected[1:]
    sizes = [found.ends[index + 1] - found.ends[index] for index in range(len(rows))]
    assert sizes == count_record_bytes(batch, topic, BROKER).to_pylist()
