"""What a producer of the remoting protocol sends, as messages of the broker (rules 4.6 to 4.8, 4.10)."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from rmqpull_broker.core.errors import RequestFailed
from rmqpull_broker.core.messages.hidden_properties import FLAG, SYS_FLAG
from rmqpull_broker.core.model import BodyEncoding, Message
from rmqpull_broker.server.remoting.handlers.codec import Origin, make_message, read_batch

ORIGIN = Origin(0, 1_700_000_000_000, "127.0.0.1:5555")


def make(flag: int = 0, sys_flag: int = 0, **properties: str) -> Message:
    return make_message(b"x", properties, flag, ORIGIN._replace(sys_flag=sys_flag))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("TAGS", "red", {"tags": "red"}),
        ("KEYS", "k1 k2", {"keys": ("k1", "k2")}),
        ("UNIQ_KEY", "AB", {"msg_id": "AB"}),
        ("__SHARDINGKEY", "customer-7", {"message_group": "customer-7"}),
        ("TRACE_CONTEXT", "t", {"trace_context": "t"}),
        ("TIMER_DELIVER_MS", "1700000000000", {"delivery_timestamp_ms": 1_700_000_000_000}),
        ("TIMER_DELIVER_MS", "007", {"system_properties": {"TIMER_DELIVER_MS": "007"}}),
        ("TIMER_DELIVER_MS", "soon", {"system_properties": {"TIMER_DELIVER_MS": "soon"}}),
        ("TIMER_DELIVER_MS", "9" * 18, {"system_properties": {"TIMER_DELIVER_MS": "9" * 18}}),
        ("TIMER_DELAY_SEC", "5", {"system_properties": {"TIMER_DELAY_SEC": "5"}}),
        ("DELAY", "3", {"system_properties": {"DELAY": "3"}}),
        ("WAIT", "true", {"system_properties": {"WAIT": "true"}}),
        ("TRAN_MSG", "TRUE", {"transactional": True, "system_properties": {"TRAN_MSG": "TRUE"}}),
        ("TRAN_MSG", "yes", {"transactional": False, "system_properties": {"TRAN_MSG": "yes"}}),
        ("colour", "blue", {"properties": {"colour": "blue"}}),
        ("INNER_NUM", "3", {"system_properties": {"INNER_NUM": "3"}}),
        ("INNER_MULTI_DISPATCH", "a,b", {"system_properties": {"INNER_MULTI_DISPATCH": "a,b"}}),
        ("MSG_REGION", "mine", {}),
        ("TRACE_ON", "false", {}),
        ("CLUSTER", "mine", {}),
        ("POP_CK", "1 2", {}),
    ],
)
def test_a_property_becomes_a_field_or_stays_a_property(name: str, value: str, expected: dict[str, Any]) -> None:
    usual = {"body": b"x", "msg_id": "", "born_timestamp_ms": 1_700_000_000_000, "born_host": "127.0.0.1:5555"}
    assert make_message(b"x", {name: value}, 0, ORIGIN) == Message(**{**usual, **expected})


@pytest.mark.proves("Bits 16 and 32 of the system flag of a send")
@pytest.mark.parametrize(
    ("sys_flag", "encoding", "others"),
    [
        (0, BodyEncoding.IDENTITY, 0),
        (0x1, BodyEncoding.GZIP, 0),
        (0x101, BodyEncoding.LZ4, 0),
        (0x201, BodyEncoding.ZSTD, 0),
        (0x301, BodyEncoding.ZLIB, 0),
        (0x501, BodyEncoding.GZIP, 0x500),
        (0x300, BodyEncoding.IDENTITY, 0x300),
        (0x2, BodyEncoding.IDENTITY, 0x2),
        (0x8, BodyEncoding.IDENTITY, 0x8),
        (0x30, BodyEncoding.IDENTITY, 0),
        (0x303, BodyEncoding.ZLIB, 0x2),
    ],
)
def test_a_system_flag_says_how_a_body_is_compressed(sys_flag: int, encoding: BodyEncoding, others: int) -> None:
    message = make(sys_flag=sys_flag)
    assert message.body_encoding is encoding
    assert message.system_properties == ({SYS_FLAG: str(others)} if others else {})


def test_a_half_message_has_no_transaction_bits() -> None:
    assert make(sys_flag=4, TRAN_MSG="true").system_properties == {"TRAN_MSG": "true"}


def test_a_flag_is_kept() -> None:
    assert make(flag=-7).system_properties == {FLAG: "-7"}


def encode(body: bytes, properties: str = "", flag: int = 0, size: int = 0) -> bytes:
    text = properties.encode()
    return struct.pack(">iiiii", size, 0, 0, flag, len(body)) + body + struct.pack(">h", len(text)) + text


def test_a_batch_has_messages_with_properties_of_their_own() -> None:
    batch = encode(b"one", "TAGS\x01red\x02UNIQ_KEY\x01A\x02", 5) + encode(b"", "TAGS\x01blue") + encode(b"three")
    messages = list(read_batch(memoryview(batch), ORIGIN))
    assert [(each.body, each.tags, each.msg_id) for each in messages] == [
        (b"one", "red", "A"),
        (b"", "blue", ""),
        (b"three", None, ""),
    ]
    assert [each.system_properties for each in messages] == [{FLAG: "5"}, {}, {}]


@pytest.mark.parametrize(
    ("batch", "sentence"),
    [
        (b"abc", "ends within the message at byte 0"),
        (encode(b"one") + encode(b"two")[:-1], "ends within the message at byte 25"),
        (encode(b"one", "a\x01b\x02")[:-1], "wrong lengths at byte 0"),
        (struct.pack(">iiiiih", 0, 0, 0, 0, -1, 0), "wrong lengths at byte 0"),
        (struct.pack(">iiiiih", 0, 0, 0, 0, 0, -1), "wrong lengths at byte 0"),
        (struct.pack(">iiiiih", 0, 0, 0, 0, 1 << 30, 0), "ends within the message at byte 0"),
    ],
)
def test_a_batch_with_wrong_lengths_is_refused(batch: bytes, sentence: str) -> None:
    with pytest.raises(RequestFailed, match=sentence):
        list(read_batch(memoryview(batch), ORIGIN))


def test_a_batch_whose_messages_take_too_long_is_refused() -> None:
    batch = struct.pack(">iiiii", 22, 0, 0, 0, 0) + struct.pack(">h", 0)
    with pytest.raises(RequestFailed, match="more than 20000 messages that differ"):
        list(read_batch(memoryview(batch * 20_001), ORIGIN))
