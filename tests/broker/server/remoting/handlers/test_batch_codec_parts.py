"""Batches of many messages that differ in more than their values."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

import pytest

from processes.apache.calls import Calls, Response
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.model import Message
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.server.remoting.handlers.batch_codec import PART_ROWS, PartReader
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode

ROWS = 2 * PART_ROWS + 1
SMALL = PART_ROWS // 2
TEXTS = (b"", b"TAGS\x01red\x02", b"KEYS\x01k1 k2\x02UNIQ_KEY\x01A\x02", b"TIMER_DELAY_MS\x0160000\x02", b"a\x01b")
LARGE = b"a\x01" + b"x" * 32_760


def encode(number: int, text: bytes) -> bytes:
    body = b"%d" % number
    head = struct.pack(">iiiii", 22 + len(body) + len(text), 0, 0, number % 3, len(body))
    return head + body + struct.pack(">h", len(text)) + text


MIXED = [encode(number, TEXTS[number % len(TEXTS)]) for number in range(ROWS)]


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker({"orders": 2}, remoting=True, clock="manual") as running:
        yield running


def send(broker: RunningBroker, queue_id: int, messages: list[bytes]) -> Response:
    values = ("producers", "orders", "TBW102", 4, queue_id, 0, 1_700_000_000_000, 0, "", 0, "false", 0, "true")
    header = dict(zip("abcdefghijklm", values, strict=True))
    body = b"".join(messages)
    return Calls().call(broker.remoting_addresses[0], RequestCode.SEND_BATCH_MESSAGE, header, body, tuple(range(1_000)))


def test_they_are_stored_like_those_of_small_batches(broker: RunningBroker) -> None:
    response = send(broker, 0, MIXED)
    assert response.code == 0
    assert len(set(response.fields["msgId"].split(","))) == ROWS
    for first in range(0, ROWS, SMALL):
        assert send(broker, 1, MIXED[first : first + SMALL]).code == 0
    rows = broker.messages("orders")  # queue by queue
    assert [row.queue_offset for row in rows] == [*range(ROWS)] * 2
    # The producer's port differs: each request has a connection of its own.
    messages = [replace(row.message, born_host="") for row in rows]
    assert messages[:ROWS] == messages[ROWS:]


@pytest.mark.parametrize(
    ("last", "code", "remark"),
    [
        ([encode(0, LARGE)], 13, "the message is illegal, maybe msg body or properties length not matched"),
        ([encode(0, LARGE), *MIXED, b"abc"], 1, "ends within the message"),
    ],
)
def test_a_message_that_is_too_large_or_cannot_be_read_refuses_all(
    broker: RunningBroker, last: list[bytes], code: int, remark: str
) -> None:
    response = send(broker, 0, MIXED + last)
    assert response.code == code
    assert remark in response.remark
    assert broker.messages("orders") == []


def test_each_part_has_few_messages() -> None:
    messages = [Message(b"%d" % number, str(number)) for number in range(ROWS)]
    reader = PartReader(BrokerProperties(), "127.0.0.1:1", 2)
    parts = list(reader.read(iter(messages)))
    reader.check_sizes()
    assert [part.num_rows for part in parts] == [PART_ROWS, PART_ROWS, 1]
    assert [body for part in parts for body in part["body"].to_pylist()] == [message.body for message in messages]
    assert {times for part in parts for times in part["reconsumeTimes"].to_pylist()} == {2}


def test_a_message_that_is_too_large_is_found_in_any_part() -> None:
    reader = PartReader(BrokerProperties(), "127.0.0.1:1", 0)
    messages = [Message(b"", "", properties={"a": "x" * 32_760 * (number == ROWS - 1)}) for number in range(ROWS)]
    assert len(list(reader.read(iter(messages)))) == 3
    with pytest.raises(BrokerError, match="properties length"):
        reader.check_sizes()
