"""The count of responses that nobody decodes."""

from __future__ import annotations

import json
import struct

import pytest

from bench.comparison import Mismeasured
from bench.undecoded import Counter, Queue
from rmqpull_proto.remoting.command import decode_command

MESSAGE_BYTES = 200


def make_response(messages: int, code: int = 0, opaque: int = 3, surplus: int = 0) -> memoryview:
    """A response as an Apache broker writes it, without its length."""
    header = json.dumps(
        {"code": code, "extFields": {"nextBeginOffset": "64"}, "flag": 1, "language": "JAVA", "opaque": opaque, "v": 1},
        separators=(",", ":"),
    ).encode()
    message = struct.pack(">I", MESSAGE_BYTES) + bytes(MESSAGE_BYTES - 4)
    return memoryview(struct.pack(">I", len(header)) + header + message * messages + bytes(surplus))


def test_pulls_of_a_queue_follow_each_other_to_its_end() -> None:
    queue = Queue("rows", 5, until_offset=100, per_pull=32, opaque=3)
    frames = [*queue.take_pulls(2), *queue.take_pulls(9), *queue.take_pulls(1)]
    pulls = [decode_command(frame[4:]) for frame in frames]
    assert [int(pull.fields["queueOffset"]) for pull in pulls] == [0, 32, 64, 96]
    assert {(pull.fields["queueId"], pull.fields["maxMsgNums"], pull.opaque) for pull in pulls} == {("5", "32", 3)}


def test_a_short_response_is_followed_by_a_pull_of_its_rest() -> None:
    queue = Queue("rows", 5, until_offset=100, per_pull=32, opaque=3)
    assert len([*queue.take_pulls(2)]) == 2
    pulls = [decode_command(frame[4:]) for until in (30, 32, 64, 96, 98, 100) for frame in queue.take_next(until)]
    asked = [(int(pull.fields["queueOffset"]), int(pull.fields["maxMsgNums"])) for pull in pulls]
    assert asked == [(30, 2), (64, 32), (96, 32), (98, 2)]


def test_messages_are_counted_by_their_size() -> None:
    counter = Counter()
    for messages in (32, 32, 4):
        response = make_response(messages)
        assert counter.add(response, 0, len(response)) == (3, 64)
    assert counter.messages == 68


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (make_response(0, code=21), 'refuses a pull: b\'{"code":21'),
        (make_response(2, surplus=1), "a response has 401 bytes, but messages have 200"),
    ],
)
def test_what_is_not_whole_messages_has_no_figure(response: memoryview, said: str) -> None:
    with pytest.raises(Mismeasured) as raised:
        Counter().add(response, 0, len(response))
    assert said in str(raised.value)
