"""Messages that clients of the remoting protocol send, as the broker stores them."""

from __future__ import annotations

import struct

from processes.apache.calls import Calls
from rmqpull_broker.testing import running_broker
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.message_ids import parse_offset_msg_id
from rmqpull_proto.remoting.properties import encode_properties


def fields(queue_id: int = 0, properties: str = "", topic: str = "orders") -> dict[str, object]:
    """The header of SEND_MESSAGE_V2."""
    values = ("producers", topic, "TBW102", 4, queue_id, 0, 1_700_000_000_000, 0, properties, 0, "false")
    return dict(zip("abcdefghijk", values, strict=True))


def test_a_message_is_stored_with_its_properties() -> None:
    text = encode_properties({"TAGS": "red", "KEYS": "k1 k2", "UNIQ_KEY": "AB12", "colour": "blue", "WAIT": "true"})
    with running_broker({"orders": 2}, remoting=True) as broker:
        address = broker.remoting_addresses[0]
        response = Calls().call(address, RequestCode.SEND_MESSAGE_V2, fields(1, text), b"one")
        (stored,) = broker.messages("orders")
    message = stored.message
    assert (message.body, message.tags, message.keys, message.msg_id) == (b"one", "red", ("k1", "k2"), "AB12")
    assert message.properties == {"colour": "blue"}
    assert message.born_timestamp_ms == 1_700_000_000_000
    assert response.fields["queueId"] == "1"
    assert response.fields["queueOffset"] == "0"
    assert response.fields["transactionId"] == "AB12"
    msg_id = parse_offset_msg_id(response.fields["msgId"])
    assert f"{msg_id.host}:{msg_id.port}" == address


def test_messages_of_all_protocols_have_the_address_of_their_broker() -> None:
    with running_broker({"orders": 1}, brokers=("broker-a", "broker-b"), remoting=True) as broker:
        first, second = broker.remoting_addresses
        broker.send("orders", b"one", b"two")
        Calls().call(second, RequestCode.SEND_MESSAGE_V2, fields(), b"three")
        hosts = [row.store_host for row in broker.messages("orders")]
    assert hosts == [first, second, second]


def test_the_messages_of_a_batch_get_an_id_each() -> None:
    def encode(body: bytes, text: bytes) -> bytes:
        size = 22 + len(body) + len(text)
        return struct.pack(">iiiii", size, 0, 0, 0, len(body)) + body + struct.pack(">h", len(text)) + text

    with running_broker({"orders": 1}, remoting=True) as broker:
        batch = encode(b"one", b"TAGS\x01red\x02") + encode(b"two", b"")
        sent = fields() | {"m": "true"}
        response = Calls().call(broker.remoting_addresses[0], RequestCode.SEND_BATCH_MESSAGE, sent, batch)
        stored = broker.messages("orders")
    assert [(row.message.body, row.message.tags) for row in stored] == [(b"one", "red"), (b"two", None)]
    assert len(set(response.fields["msgId"].split(","))) == 2
