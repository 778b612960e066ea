"""The oracle answers as Apache's documentation of the wire says."""

from __future__ import annotations

import pytest

from processes.apache.oracle import JavaOracle, JavaRefused, to_bytes, to_text
from processes.apache.releases import RELEASE_4

pytestmark = pytest.mark.apache_classes

COMMAND = {
    "code": 11,
    "language": "PYTHON",
    "version": 479,
    "opaque": 7,
    "flag": 0,
    "remark": "naïve",
    "serializeType": "JSON",
    "extFields": {"topic": "orders", "queueId": "3", "text": "ü😀"},
    "body": to_text(b"\x00\xff"),
}
MESSAGE = {
    "topic": "orders",
    "queueId": 1,
    "flag": 2,
    "queueOffset": 3,
    "commitLogOffset": 4,
    "sysFlag": 0,
    "bornTimestamp": 5,
    "bornHost": "1.2.3.4:5",
    "storeTimestamp": 6,
    "storeHost": "127.0.0.1:10911",
    "reconsumeTimes": 0,
    "preparedTransactionOffset": 0,
    "body": to_text(b"body"),
    "properties": {"KEYS": "k", "@type": "java.lang.Object"},
}


@pytest.mark.parametrize("serialize_type", ["JSON", "ROCKETMQ"])
def test_commands_are_the_same_after_both_ways(oracle: JavaOracle, serialize_type: str) -> None:
    command = {**COMMAND, "serializeType": serialize_type}
    frame = oracle.encode_command(command)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert oracle.decode_command(frame) == command


def test_headers_are_fields_of_java_classes(oracle: JavaOracle) -> None:
    fields = oracle.encode_header("PullMessageRequestHeader", {"topic": "orders", "queueId": 3, "maxMsgNums": 32})
    assert {name: fields[name] for name in ("topic", "queueId", "maxMsgNums")} == {
        "topic": "orders",
        "queueId": "3",
        "maxMsgNums": "32",
    }
    read = oracle.decode_header("PullMessageRequestHeader", {"queueId": "3"})
    assert (read["queueId"], read["topic"]) == (3, None)


def test_signatures(oracle: JavaOracle) -> None:
    signed = oracle.sign(COMMAND, "key", "secret")
    content = "key" + "3" + "ü😀" + "orders"  # in the order of the names: AccessKey, queueId, text, topic
    assert signed["Signature"] == oracle.sign_content(content.encode() + to_bytes(str(COMMAND["body"])), "secret")


def test_routes_have_bare_numbers_as_keys(oracle: JavaOracle) -> None:
    route = {"brokerDatas": [{"cluster": "c", "brokerName": "a", "brokerAddrs": {"0": "h:1"}}], "queueDatas": []}
    bare = oracle.encode_body("TopicRouteData", route)
    assert b"{0:" in bare
    assert b'{"0":' in oracle.encode_body("TopicRouteData", route, is_standard=True)
    assert oracle.decode_body("TopicRouteData", bare)["brokerDatas"][0]["brokerAddrs"] == {"0": "h:1"}


def test_stored_messages(oracle: JavaOracle) -> None:
    data = oracle.encode_message(MESSAGE)
    first, second = oracle.decode_messages(data + data)
    assert first == second
    assert {name: first[name] for name in MESSAGE} == MESSAGE
    assert first["offsetMsgId"] == oracle.create_message_id("127.0.0.1", 10911, 4) == first["msgId"]
    assert oracle.decode_message_id(first["msgId"]) == {"host": "127.0.0.1", "port": 10911, "offset": 4}


@pytest.mark.parametrize(("compression_type", "bits"), [("ZLIB", 0x300), ("LZ4", 0x100), ("ZSTD", 0x200)])
def test_compressed_bodies(oracle: JavaOracle, compression_type: str, bits: int) -> None:
    data = oracle.encode_message({**MESSAGE, "sysFlag": 1 | bits, "body": to_text(b"a" * 1000)})
    assert len(data) < 300
    assert oracle.decode_messages(data)[0]["body"] == to_text(b"a" * 1000)
    assert oracle.decompress(compression_type, oracle.compress(compression_type, b"abc")) == b"abc"


def test_batches_and_properties(oracle: JavaOracle) -> None:
    messages = [{"flag": 1, "body": to_text(b"one"), "properties": {"TAGS": "a"}}]
    assert oracle.decode_batch(oracle.encode_batch(messages)) == [
        {**messages[0], "topic": None, "transactionId": None}  # a batch has its topic in the header
    ]
    assert oracle.decode_properties("a\x01b\x02c\x01\x02d") == {"a": "b"}
    assert oracle.encode_properties({"a": "b"}).rstrip("\x02") == "a\x01b"


def test_ids_and_hashes(oracle: JavaOracle) -> None:
    unique = oracle.create_unique_id()
    assert oracle.create_unique_id() != unique
    assert oracle.read_time_of_unique_id(unique) > 0
    assert oracle.read_host_of_unique_id(unique)
    assert oracle.hash_code("ab") == 31 * ord("a") + ord("b")
    assert oracle.crc32(b"abc") == 0x352441C2
    if oracle.release is not RELEASE_4:
        assert 0 <= oracle.hash_consistently(oracle.hash_code("order-1"), 8) < 8


def test_exceptions_of_java_are_told(oracle: JavaOracle) -> None:
    with pytest.raises(JavaRefused, match="ClassNotFoundException"):
        oracle.decode_header("NoSuchHeader", {})
    if oracle.release is RELEASE_4:
        with pytest.raises(JavaRefused, match="Hashing"):
            oracle.hash_consistently(1, 8)
