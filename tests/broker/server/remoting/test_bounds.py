"""Each request has a bound that is checked before anything reads it, and a request below its bound is read."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from rmqpull_broker.server.limits import HEARTBEAT_TOPICS_MAX
from rmqpull_broker.server.remoting.bounds import find_body_bytes_max
from rmqpull_broker.server.remoting.registry import list_handlers
from rmqpull_broker.server.remoting.wire.admin_bodies import SETTINGS_MAX
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import REQUEST_HEADER_BYTES_MAX, WireError, decode_command
from rmqpull_proto.remoting.frames import FRAME_BYTES_MAX
from rmqpull_proto.remoting.heartbeats import GroupMembership, HeartbeatData, Subscription
from rmqpull_proto.remoting.json_dialect import DIALECT_COST, read_json, write_json
from tests.harness.remoting_member import RemotingMember

CODES = sorted(code for code in list_handlers() if find_body_bytes_max(code) < FRAME_BYTES_MAX)
MESSAGES = {
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
}
TOO_LARGE = "more than the max"


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with running_broker({"orders": 1}, remoting=True) as running:
        yield running


def test_only_messages_are_as_large_as_a_frame() -> None:
    assert set(list_handlers()) - set(CODES) == MESSAGES


def test_the_body_of_each_request_has_a_bound(broker: RunningBroker) -> None:
    with RemotingMember(broker.remoting_addresses[0]) as member:
        for code in CODES:
            below = member.call(code, body=b" " * (find_body_bytes_max(code) - 1))
            above = member.call(code, body=b" " * (find_body_bytes_max(code) + 1))
            assert TOO_LARGE not in (below.remark or ""), code
            assert above.code == ResponseCode.SYSTEM_ERROR, code
            assert TOO_LARGE in (above.remark or ""), code


def make_header(fields: int, padding: int = 0) -> bytes:
    entries = struct.pack(">H", 1) + b"a" + struct.pack(">I", 1) + b"b"
    entries *= fields
    if padding:
        entries += struct.pack(">H", 1) + b"p" + struct.pack(">I", padding) + b"x" * padding
    header = struct.pack(">hBhiiI", RequestCode.HEART_BEAT, 0, 477, 1, 0, 0) + struct.pack(">I", len(entries)) + entries
    return struct.pack(">I", 1 << 24 | len(header)) + header


EMPTY_BYTES = len(make_header(0, 1)) - 4 - 1


def test_a_header_below_its_bound_is_read() -> None:
    frame = make_header(0, REQUEST_HEADER_BYTES_MAX - EMPTY_BYTES)
    assert decode_command(frame, header_bytes_max=REQUEST_HEADER_BYTES_MAX).code == RequestCode.HEART_BEAT


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (make_header(0, REQUEST_HEADER_BYTES_MAX - EMPTY_BYTES + 1), "header has 262145 bytes"),
        (make_header(4_097), "more than 4096 fields"),
    ],
)
def test_a_larger_header_is_refused_before_it_is_read(frame: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        decode_command(frame, header_bytes_max=REQUEST_HEADER_BYTES_MAX)
    decode_command(frame)  # clients trust their servers


def test_a_connection_ends_with_a_header_above_the_bound(broker: RunningBroker) -> None:
    with RemotingMember(broker.remoting_addresses[0]) as member, pytest.raises((AssertionError, ConnectionError)):
        member.call(RequestCode.HEART_BEAT, {"name": "x" * REQUEST_HEADER_BYTES_MAX})


@pytest.mark.parametrize("text", [b"[1,1,1,1]", b"[[],[[]]]", b'[{},{"":{}}]'])
def test_values_are_counted_before_json_is_read(text: bytes) -> None:
    count = sum(map(text.count, (b",", b"[", b"{")))
    assert read_json(text, values_max=count) == read_json(text)
    with pytest.raises(WireError, match=f"{count} values, expected at most {count - 1}"):
        read_json(text + b"is no JSON", values_max=count - 1)


@pytest.mark.parametrize("text", [b"{a:[1,2]}", b'["\\ud83d\\ude00",{"a":1}]'])
def test_what_takes_longer_to_read_has_a_lower_bound(text: bytes) -> None:
    count = sum(map(text.count, (b",", b"[", b"{")))
    assert read_json(text, values_max=count * DIALECT_COST) == read_json(text)
    with pytest.raises(WireError, match=f"at most {count - 1} of them"):
        read_json(text, values_max=count * DIALECT_COST - 1)


def test_escapes_of_the_dialect_count_too() -> None:
    assert read_json(b"{a:'" + b"\\n" * 64 + b"'}", values_max=9 * DIALECT_COST) == {"a": "\n" * 64}
    with pytest.raises(WireError, match="10 values and escapes"):
        read_json(b"{a:'" + b"\\n" * 72 + b"'}", values_max=9 * DIALECT_COST)


def test_a_heartbeat_with_all_subscriptions_passes(broker: RunningBroker) -> None:
    subscriptions = tuple(Subscription(f"{'t' * 120}{number}", "a || b", 1) for number in range(HEARTBEAT_TOPICS_MAX))
    body = HeartbeatData("many", (GroupMembership("readers", subscriptions=subscriptions),)).encode()
    with RemotingMember(broker.remoting_addresses[0]) as member:
        assert member.call(RequestCode.HEART_BEAT, body=body).code == ResponseCode.SUCCESS


def test_a_list_of_groups_is_limited(broker: RunningBroker) -> None:
    groups = [{"groupName": f"many-{number}"} for number in range(SETTINGS_MAX + 1)]
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
    with RemotingMember(broker.remoting_addresses[0]) as member:
        refused = member.call(code, body=write_json({"groupConfigList": groups}))
        taken = member.call(code, body=write_json({"groupConfigList": groups[1:]}))
    assert (refused.code, taken.code) == (ResponseCode.SYSTEM_ERROR, ResponseCode.SUCCESS)
    assert f"expected at most {SETTINGS_MAX}" in (refused.remark or "")


def test_a_response_above_the_limit_of_frames_becomes_a_refusal(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqpull_proto.remoting.command.FRAME_BYTES_MAX", 1_000)
    with RemotingMember(broker.remoting_addresses[0]) as member:
        refused = member.call(RequestCode.GET_ALL_TOPIC_CONFIG)
        assert member.call(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"}).code == 0
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "a frame has at most 1000" in (refused.remark or "")
