"""Ids of messages that brokers give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.server.remoting.wire.message_ids import (
    OffsetMsgId,
    make_offset_msg_id,
    make_offset_msg_ids,
    parse_offset_msg_id,
)
from rmqpull_proto.remoting.frames import WireError

HOSTS = st.ip_addresses().filter(lambda address: not getattr(address, "ipv4_mapped", None)).map(str)


def test_known_ids_of_brokers() -> None:
    assert make_offset_msg_id("127.0.0.1", 10911, 0) == "7F00000100002A9F0000000000000000"
    assert make_offset_msg_id("::1", 10911, 258) == "0" * 31 + "1" + "00002A9F" + "0000000000000102"


@pytest.mark.parametrize("first", [0, 255, (1 << 63) - 3])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_ids_of_consecutive_messages(host: str, first: int) -> None:
    ids = make_offset_msg_ids(host, 10911, first, 3)
    assert ids == [make_offset_msg_id(host, 10911, offset) for offset in range(first, first + 3)]


def test_an_ipv4_address_in_the_form_of_ipv6_is_the_former() -> None:
    assert make_offset_msg_id("::ffff:127.0.0.1", 10911, 0) == make_offset_msg_id("127.0.0.1", 10911, 0)


@given(HOSTS, st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
def test_an_id_of_a_broker_survives(host: str, port: int, offset: int) -> None:
    msg_id = make_offset_msg_id(host, port, offset)
    assert parse_offset_msg_id(msg_id) == parse_offset_msg_id(msg_id.lower()) == OffsetMsgId(host, port, offset)


@pytest.mark.parametrize("text", ["", "0156F7E71C361B21BC024CCDBE00000000", "Z" * 32, "7F 00" * 6 + "7F", "٣" * 32])
def test_other_texts_are_no_ids(text: str) -> None:
    with pytest.raises(WireError, match="is no message id of a broker: expected 32 or 56 hexadecimal digits"):
        parse_offset_msg_id(text)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(WireError, match="'broker-a' is no IPv4 or IPv6 address"):
        make_offset_msg_id("broker-a", 1, 0)
    with pytest.raises(WireError, match="port 2147483648 or physical offset 0 does not fit"):
        make_offset_msg_id("127.0.0.1", 2**31, 0)
