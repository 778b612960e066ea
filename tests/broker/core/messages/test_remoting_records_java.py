"""Apache's own MessageDecoder reads the records of pulls (rules 4.7, 4.8)."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest
from hypothesis import given

from processes.apache.oracle import JavaOracle, to_bytes
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.messages.hidden_properties import FLAG
from rmqpull_broker.core.messages.message_properties import make_common_properties, make_stored_properties
from rmqpull_broker.core.messages.remoting_records import encode_records
from rmqpull_broker.core.model import BodyEncoding, Message, StoredMessage
from rmqpull_broker.core.properties import BrokerProperties
from tests.harness.stored_rows import QUEUES

BROKER = BrokerProperties()


def readable(row: StoredMessage) -> StoredMessage:
    """Returns the message with a body: Java would decompress a packed one, and gives null for an empty one."""
    message = replace(row.message, body=row.message.body + b".", body_encoding=BodyEncoding.IDENTITY)
    return replace(row, message=message)


def list_properties(message: Message) -> dict[str, str]:
    return {name: value for name, value in make_stored_properties(message, BROKER).items() if value}


@pytest.mark.apache_classes
@given(queue=QUEUES)
def test_java_reads_the_records_of_a_queue(oracle: JavaOracle, queue: list[StoredMessage]) -> None:
    rows = [readable(row) for row in queue]
    records = encode_records(columns.from_rows(rows), "orders", 3, 5_000, make_common_properties(BROKER))
    read = oracle.decode_messages(bytes(records.data))
    assert [to_bytes(each["body"]) for each in read] == [row.message.body for row in rows]
    assert [each["bodyCRC"] for each in read] == [zlib.crc32(row.message.body) & 0x7FFFFFFF for row in rows]
    assert [each["properties"] for each in read] == [list_properties(row.message) for row in rows]
    for name, expected in (
        ("queueOffset", [row.queue_offset for row in rows]),
        ("bornTimestamp", [row.message.born_timestamp_ms for row in rows]),
        ("storeTimestamp", [row.store_timestamp_ms for row in rows]),
        ("reconsumeTimes", [row.reconsume_times for row in rows]),
        ("flag", [int(row.message.system_properties.get(FLAG, "0")) for row in rows]),
    ):
        assert [int(each[name]) for each in read] == expected, name
