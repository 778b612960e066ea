"""Bodies of consumers that pop."""

from __future__ import annotations

import json

import pytest

from rmqpull_broker.server.remoting.wire.pop_bodies import (
    BatchAck,
    RequestMode,
    decode_batch_acks,
    decode_request_mode,
    encode_request_modes,
)
from rmqpull_proto.remoting.frames import WireError
from tests.harness.remoting_pops import encode_batch_acks

ACK = BatchAck("g", "t", "0", 100, 3, 1, 1_700_000_000_000, 60_000, (100, 102, 109))


def test_acknowledgements_survive() -> None:
    assert decode_batch_acks(encode_batch_acks("broker-a", [ACK, ACK._replace(offsets=())])) == (
        "broker-a",
        (ACK, ACK._replace(offsets=())),
    )


def test_long_names_of_fields_are_read_too() -> None:
    names = {
        "consumerGroup": "g",
        "topic": "t",
        "retry": "0",
        "startOffset": 100,
        "queueId": 3,
        "reviveQueueId": 1,
        "popTime": 1_700_000_000_000,
        "invisibleTime": 60_000,
        "bitSet": "BQI=",
    }
    assert decode_batch_acks(json.dumps({"acks": [names]}).encode()) == ("", (ACK,))


@pytest.mark.parametrize("body", [b"", b"{}", b"null", b'{"acks":[]}', b'{"acks":null}'])
def test_there_may_be_none(body: bytes) -> None:
    assert decode_batch_acks(body) == ("", ())


@pytest.mark.parametrize("change", [{"r": "3"}, {"r": None}, {"b": "?"}, {"so": "x"}, {"b": "A" * 100_000}])
def test_other_acknowledgements_are_refused(change: dict[str, object]) -> None:
    data = json.loads(encode_batch_acks("broker-a", [ACK]))
    data["acks"][0] |= change
    with pytest.raises(WireError):
        decode_batch_acks(json.dumps(data).encode())


def test_request_modes() -> None:
    body = b'{"topic":"t","consumerGroup":"g","mode":"POP","popShareQueueNum":1}'
    assert decode_request_mode(body) == RequestMode("t", "g", "POP", 1)
    assert decode_request_mode(b'{"topic":"t"}') == RequestMode("t", "", "PULL", 0)
    with pytest.raises(WireError):
        decode_request_mode(b"{}")
    parts = encode_request_modes({"t": [RequestMode("t", "g", "POP", 1), RequestMode("t", "h")]})
    modes = json.loads(b"".join(part for part in parts if part is not None))
    assert modes["messageRequestModeMap"]["t"].keys() == {"g", "h"}
    assert modes["messageRequestModeMap"]["t"]["g"] == json.loads(body)
