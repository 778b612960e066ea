"""Bytes of attacks: a whole request is one that the broker's own reader takes."""

from __future__ import annotations

from bench.hostile.attacks.http2_frames import make_frame as make_http2_frame
from bench.hostile.attacks.http2_frames import make_headers
from bench.hostile.lines import make_frame, make_request
from rmqpull_proto.remoting.command import decode_command
from rmqpull_proto.remoting.frames import PREFIX_BYTES


def test_a_request_has_texts_and_a_body() -> None:
    read = decode_command(make_request(10, {"queueId": 3}, b"body", is_oneway=True)[PREFIX_BYTES:])
    assert (read.code, dict(read.fields), bytes(read.body), read.is_oneway) == (10, {"queueId": "3"}, b"body", True)


def test_a_frame_has_any_header() -> None:
    frame = make_frame(b'{"code":105}', b"rest")
    assert int.from_bytes(frame[:PREFIX_BYTES], "big") == len(frame) - PREFIX_BYTES
    assert decode_command(frame[PREFIX_BYTES:]).code == 105


def test_a_frame_of_http2_has_its_length_and_its_stream() -> None:
    assert make_http2_frame(6, 1, 3, b"12345678") == b"\0\0\x08\x06\x01\0\0\0\x0312345678"
    assert make_headers("/a.B/C").startswith(b"\0\x07:method\x04POST\0\x07:scheme\x04http\0\x05:path\x06/a.B/C")
