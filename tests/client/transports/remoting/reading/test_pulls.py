"""Frames of pulls are read by brokers, and their responses are judged by RocketMQ's rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rmqpull_client.connection import Connection, Credentials
from rmqpull_client.model import EVERYTHING, SQL92, MessageFilter, MessageQueue, QueueRange
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.reading.pull_plan import QueuePlan, Span
from rmqpull_client.transports.remoting.reading.pulls import (
    PullFrames,
    ReceivedPull,
    Step,
    count_records,
    judge,
    parse_response,
)
from rmqpull_client.transports.remoting.signing import compute_signature
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand, Serialization, decode_command, encode_command
from tests.harness.stored_records import StoredRecord

QUEUE = MessageQueue("orders", "broker-a", 3)
FOUND = {"suggestWhichBrokerId": "1", "nextBeginOffset": "132", "minOffset": "5", "maxOffset": "9999"}


def make_frames(group: str = "g", message_filter: MessageFilter = EVERYTHING, **settings: Any) -> PullFrames:
    return PullFrames(RemotingChannel(Connection(name_servers="127.0.0.1:1", **settings)), group, message_filter)


def make_span(offset: int, asked: int) -> Span:
    span = Span(QueuePlan(QueueRange(QUEUE, offset, offset + asked), asked), offset, offset + asked)
    span.asked = asked
    return span


def decode(frame: bytes) -> RemotingCommand:
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return decode_command(frame[4:])


def test_a_pull_neither_sets_an_offset_nor_is_parked() -> None:
    command = decode(make_frames(namespace="shop").make(make_span(100, 32), 77))
    assert (command.code, command.opaque) == (RequestCode.PULL_MESSAGE, 77)
    assert command.fields["consumerGroup"] == "shop%g"
    assert command.fields["topic"] == "shop%orders"
    assert [int(command.fields[name]) for name in ("queueId", "queueOffset", "maxMsgNums")] == [3, 100, 32]
    assert [command.fields[name] for name in ("sysFlag", "commitOffset", "subscription")] == ["4", "0", "*"]
    assert command.fields["bname"] == "broker-a"


@pytest.mark.parametrize("length", range(1, 250, 3))
def test_a_frame_of_any_length_has_its_numbers_in_their_places(length: int) -> None:
    """Lengths are bytes that may look like a place for a number."""
    frames = make_frames("%" * length)
    for opaque, offset in ((1, 2), (0x25252525, (1 << 63) - 1)):
        command = decode(frames.make(make_span(offset, 31), opaque))
        assert (command.opaque, int(command.fields["queueOffset"])) == (opaque, offset)
        assert int(command.fields["maxMsgNums"]) == 31


def test_each_pull_is_signed() -> None:
    frames = make_frames(credentials=Credentials("key", "secret"))
    for offset in (5, 6):
        command = decode(frames.make(make_span(offset, 32), 9))
        assert int(command.fields["queueOffset"]) == offset
        assert compute_signature(command.fields, b"", "secret") == command.fields["Signature"]


def test_a_filter_is_sent_with_each_pull() -> None:
    command = decode(make_frames(message_filter=MessageFilter("a % 2 = 1", SQL92)).make(make_span(2, 3), 1))
    assert (command.fields["subscription"], command.fields["expressionType"]) == ("a % 2 = 1", SQL92)


@pytest.mark.parametrize("serialization", Serialization)
@pytest.mark.parametrize(
    ("code", "remark", "fields"),
    [
        (0, "FOUND", FOUND),
        (0, "FOUND", FOUND | {"topicSysFlag": "0", "groupSysFlag": "0", "offsetDelta": "0"}),
        (0, "FOUND", dict(reversed(FOUND.items()))),
        (0, None, FOUND),
        (21, "OFFSET_TOO_SMALL", FOUND),
        (2, "[REJECTREQUEST]system busy", {}),
    ],
)
def test_a_response_is_read(
    serialization: Serialization, code: int, remark: str | None, fields: Mapping[str, str]
) -> None:
    response = RemotingCommand(code, fields, b"messages", 4711, 1, remark, language=0, serialization=serialization)
    frame = b"before" + encode_command(response)[4:] + b"after"
    found = parse_response(memoryview(frame), 6, len(frame) - 5)
    assert (found.opaque, found.code) == (4711, code)
    expected = (132, 1) if fields else (-1, -1)
    assert (found.next_offset, found.suggested_broker) == expected
    assert frame[found.body_start : -5] == b"messages"
    if code:
        assert found.remark == remark
        assert (found.min_offset, found.max_offset) == ((5, 9999) if fields else (-1, -1))


def test_a_request_of_the_broker_is_no_response() -> None:
    frame = encode_command(RemotingCommand(40, opaque=7))[4:]
    assert parse_response(memoryview(frame), 0, len(frame)).opaque == -1


def test_records_are_counted_by_their_sizes() -> None:
    body = b"".join(StoredRecord(b"x" * size).encode() for size in (1, 50, 3))
    assert count_records(memoryview(b"ab" + body), 2, 2 + len(body)) == 3
    assert count_records(memoryview(bytes(100)), 0, 100) <= 100


def answer(code: int, remark: str = "", next_offset: int = -1, low: int = -1, high: int = -1) -> ReceivedPull:
    return ReceivedPull(1, code, next_offset, low, high, 0, 0, remark)


MOVED, EMPTY, RETRY = ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY
# (response, step for a master, where a loss ends). The pull is at 10 of a range until 50.
JUDGED = [
    (answer(0, "FOUND", 42, 0, 99), Step.ROWS, -1),
    (answer(0, "FOUND", 10, 0, 99), Step.AGAIN, -1),
    (answer(MOVED, "OFFSET_TOO_SMALL", 30, 30, 99), Step.LOST, 30),
    (answer(MOVED, "OFFSET_OVERFLOW_BADLY", 7, 0, 7), Step.LOST, 50),
    (answer(MOVED, "OFFSET_OVERFLOW_BADLY", 0, 0, 7), Step.LOST, 50),  # 4.x
    (answer(MOVED, "NO_MESSAGE_IN_QUEUE", 0, 0, 0), Step.LOST, 50),
    (answer(MOVED, "OFFSET_RESET", 7, 0, 99), Step.RESET, -1),
    (answer(EMPTY, "OFFSET_OVERFLOW_ONE", 10, 0, 10), Step.LOST, 50),
    (answer(EMPTY, "OFFSET_FOUND_NULL", 20, 0, 99), Step.LOST, 20),
    (answer(EMPTY, "OFFSET_FOUND_NULL", 10, 0, 99), Step.AGAIN, -1),
    (answer(RETRY, "MESSAGE_WAS_REMOVING", 12, 0, 99), Step.LOST, 12),
    (answer(RETRY, "MESSAGE_WAS_REMOVING", 10, 0, 99), Step.AGAIN, -1),
    (answer(ResponseCode.SYSTEM_BUSY), Step.AGAIN, -1),
    (answer(ResponseCode.SERVICE_NOT_AVAILABLE), Step.AGAIN, -1),
    (answer(ResponseCode.GO_AWAY), Step.AGAIN, -1),
    (answer(ResponseCode.TOPIC_NOT_EXIST), Step.QUEUE_LOST, -1),
    (answer(ResponseCode.INVALID_PARAMETER, "queueId[9] is illegal, topic"), Step.QUEUE_LOST, -1),
    (answer(ResponseCode.SYSTEM_ERROR, "queueId[9] is illegal, topic"), Step.QUEUE_LOST, -1),  # before 5.3.2
    (answer(ResponseCode.SYSTEM_ERROR, "store getMessage return null"), Step.REFUSED, -1),
    (answer(ResponseCode.NO_PERMISSION), Step.REFUSED, -1),
    (answer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST), Step.REFUSED, -1),
]


@pytest.mark.parametrize("is_filtered", [False, True])
@pytest.mark.parametrize(("response", "step", "until"), JUDGED)
def test_a_master_decides(response: ReceivedPull, step: Step, until: int, is_filtered: bool) -> None:
    verdict = judge(response, 10, 50, is_filtered, is_slave=False)
    assert (verdict.step, verdict.until_offset) == (step, until)


@pytest.mark.parametrize(("response", "step", "until"), JUDGED)
def test_a_slave_never_decides_that_messages_are_lost(response: ReceivedPull, step: Step, until: int) -> None:
    verdict = judge(response, 10, 50, is_filtered=False, is_slave=True)
    is_undecided = step in (Step.LOST, Step.QUEUE_LOST)
    assert verdict.step in ((Step.ASK_MASTER,) if is_undecided else (step, Step.ASK_MASTER))


def test_only_a_filter_passes_over_messages() -> None:
    response = answer(RETRY, "NO_MATCHED_MESSAGE", 810, 0, 9_999)
    assert judge(response, 10, 5_000, is_filtered=True, is_slave=False).step is Step.PASSED
    assert judge(response, 10, 5_000, is_filtered=False, is_slave=False).step is Step.LOST
