"""Responses to pulls as frames are the commands that any encoder would make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.server.remoting.wire.pull_responses import PullResponse, encode_pull_response
from rmqpull_proto.remoting.codes import LanguageCode
from rmqpull_proto.remoting.command import RemotingCommand, Serialization, decode_command
from rmqpull_proto.remoting.frames import FRAME_BYTES_MAX, FrameTooLarge, split_frames
from rmqpull_proto.remoting.headers import PullMessageResponseHeader

OFFSETS = st.integers(-1, (1 << 63) - 1)


@given(
    serialization=st.sampled_from(Serialization),
    opaque=st.integers(-(1 << 31), (1 << 31) - 1),
    code=st.sampled_from([0, 19, 20, 21]),
    remark=st.sampled_from(["FOUND", "OFFSET_OVERFLOW_BADLY"]),
    offsets=st.tuples(OFFSETS, OFFSETS, OFFSETS),
    body=st.lists(st.binary(max_size=9), max_size=3),
)
def test_a_response_is_read_as_it_was_meant(
    serialization: Serialization,
    opaque: int,
    code: int,
    remark: str,
    offsets: tuple[int, int, int],
    body: list[bytes],
) -> None:
    request = RemotingCommand(11, opaque=opaque, serialization=serialization)
    frame = encode_pull_response(request, PullResponse(code, remark, *offsets, [memoryview(part) for part in body], 15))
    ((start, end),) = split_frames(memoryview(frame), 0, len(frame))
    assert end == len(frame)
    command = decode_command(memoryview(frame)[start:])
    next_begin_offset, min_offset, max_offset = offsets
    fields = PullMessageResponseHeader(
        suggest_which_broker_id=0,
        next_begin_offset=next_begin_offset,
        min_offset=min_offset,
        max_offset=max_offset,
        topic_sys_flag=0,
        group_sys_flag=15,
    )
    expected = request.make_response(code, fields.to_fields(), b"".join(body), remark)
    expected.language = LanguageCode.JAVA
    assert command == expected


@pytest.mark.parametrize("serialization", Serialization)
def test_a_response_beyond_the_limit_of_frames_is_refused(serialization: Serialization) -> None:
    request = RemotingCommand(11, serialization=serialization)
    with pytest.raises(FrameTooLarge, match="a response to a pull has 167"):
        encode_pull_response(request, PullResponse(0, "FOUND", 1, 0, 1, [bytes(FRAME_BYTES_MAX)]))
