"""Apache's own classes read what we write about pops, and we read what they write."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processes.apache.oracle import JavaOracle, JavaRefused
from rmqpull_broker.server.remoting.wire.pop_bodies import (
    BatchAck,
    decode_batch_acks,
    decode_request_mode,
)
from rmqpull_broker.server.remoting.wire.pop_infos import (
    ExtraInfo,
    QueuePopped,
    parse_extra_info,
    write_consumed_times,
    write_extra_info,
    write_message_offsets,
    write_start_offsets,
)
from rmqpull_proto.remoting.frames import WireError
from tests.harness.remoting_pops import encode_batch_acks

TOPICS = st.sampled_from(["orders", "%RETRY%g_orders", "%RETRY%g+orders", "%DLQ%g"])
IDS = st.integers(0, 2**31 - 1)
LONGS = st.integers(0, 2**62)
OFFSETS = st.lists(LONGS, min_size=1, max_size=32, unique=True).map(sorted)


@pytest.fixture(autouse=True)
def _only_5(oracle: JavaOracle) -> None:
    if oracle.release.client.startswith("4."):
        pytest.skip("4.x does not know pop")


def find_kind(topic: str) -> int:
    """The topic itself is 0. Retries are 1, and 2 in the topics of 5.x."""
    return 0 if not topic.startswith("%RETRY%") else 2 if "+" in topic else 1


@pytest.mark.apache_classes
@given(queues=st.lists(st.tuples(TOPICS, IDS, LONGS, OFFSETS), min_size=1, max_size=3))
def test_offsets_of_queues(oracle: JavaOracle, queues: list[tuple[str, int, int, list[int]]]) -> None:
    starts = messages = ""
    for topic, queue_id, start, offsets in queues:
        starts = oracle.call_extra_info("buildStartOffsetInfo", starts, topic, queue_id, start)
        messages = oracle.call_extra_info("buildMsgOffsetInfo", messages, topic, queue_id, offsets)
    popped = [QueuePopped(find_kind(topic), queue_id, start, offsets) for topic, queue_id, start, offsets in queues]
    assert write_start_offsets(popped) == starts
    assert write_message_offsets(popped) == messages


@given(topic=TOPICS, queue_id=IDS, times=st.dictionaries(LONGS, st.integers(1, 20), max_size=1))
def test_numbers_of_deliveries(oracle: JavaOracle, topic: str, queue_id: int, times: dict[int, int]) -> None:
    text = ""
    for offset, count in times.items():
        text = oracle.call_extra_info("buildQueueOffsetOrderCountInfo", text, topic, queue_id, offset, count)
    text = oracle.call_extra_info("buildQueueIdOrderCountInfo", text, topic, queue_id, min(times.values(), default=0))
    offsets = tuple(times) or (0,)
    assert write_consumed_times([QueuePopped(find_kind(topic), queue_id, 0, offsets, times)]) == text


@given(topic=TOPICS, numbers=st.tuples(LONGS, LONGS, LONGS, IDS), queue_id=IDS, offset=LONGS)
def test_receipts(oracle: JavaOracle, topic: str, numbers: tuple[int, ...], queue_id: int, offset: int) -> None:
    java = oracle.call_extra_info("buildExtraInfo", *numbers, topic, "broker-a", queue_id, offset)
    start, pop_time_ms, invisible_ms, revive_queue_id = numbers
    receipt = ExtraInfo(start, pop_time_ms, invisible_ms, revive_queue_id, "broker-a")
    assert write_extra_info(receipt, find_kind(topic), queue_id, offset) == java
    assert parse_extra_info(java) == receipt


@given(parts=st.lists(st.sampled_from(["", "0", "7", "+7", "-1", "x", "999", " ", "broker-a"]), max_size=9))
def test_odd_receipts(oracle: JavaOracle, parts: list[str]) -> None:
    text = " ".join(parts)
    try:
        java = [oracle.call_extra_info("split", text)]
        java += [
            oracle.call_extra_info(f"get{name}", java[0]) for name in ("CkQueueOffset", "PopTime", "InvisibleTime")
        ]
        java += [oracle.call_extra_info(f"get{name}", java[0]) for name in ("ReviveQid", "BrokerName")]
    except JavaRefused:
        with pytest.raises(WireError):
            parse_extra_info(text)
    else:
        assert list(map(str, parse_extra_info(text))) == list(map(str, java[1:]))


@given(
    ack=st.builds(
        BatchAck,
        *(st.just("g"), st.just("t"), st.sampled_from("012"), st.just(0)),
        *(IDS, IDS, LONGS, LONGS, st.sets(st.integers(0, 300)).map(lambda offsets: tuple(sorted(offsets)))),
    )
)
def test_acknowledgements(oracle: JavaOracle, ack: BatchAck) -> None:
    ours = encode_batch_acks("broker-a", [ack])
    java = oracle.encode_body("BatchAckMessageRequestBody", json.loads(ours))
    assert decode_batch_acks(java) == ("broker-a", (ack,))


def test_request_modes(oracle: JavaOracle) -> None:
    value = {"topic": "t", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 3}
    assert decode_request_mode(oracle.encode_body("SetMessageRequestModeRequestBody", value)) == ("t", "g", "POP", 3)
