"""Commands as frames: known bytes, round trips, and what damaged ones give."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_proto.remoting.codes import LanguageCode, RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand, Serialization, WireError, decode_command, encode_command
from rmqpull_proto.remoting.frames import FRAME_BYTES_MAX, FrameTooLarge

BINARY, JSON = Serialization.BINARY, Serialization.JSON

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INTS = st.integers(-(2**31), 2**31 - 1)
SHORTS = st.integers(-(2**15), 2**15 - 1)
COMMANDS = st.builds(
    RemotingCommand,
    code=SHORTS,
    fields=st.dictionaries(TEXTS.filter(bool), TEXTS.filter(bool), max_size=6),
    body=st.binary(max_size=50),
    opaque=INTS,
    flag=INTS,
    remark=st.none() | TEXTS.filter(bool),
    language=st.sampled_from(LanguageCode),
    version=SHORTS,
    serialization=st.sampled_from(Serialization),
)


def decode(frame: bytes) -> RemotingCommand:
    return decode_command(memoryview(frame)[4:])


def test_a_binary_request_has_these_bytes() -> None:
    command = RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}, b"xy", opaque=7)
    fixed = "0069 03 0201 00000007 00000000 00000000"
    entry = "0005 746f706963 00000001 54"
    header = bytes.fromhex(fixed + "0000000c" + entry)
    assert encode_command(command) == struct.pack(">II", 4 + len(header) + 2, 1 << 24 | len(header)) + header + b"xy"


def test_a_json_response_has_this_text() -> None:
    request = RemotingCommand(RequestCode.GET_MAX_OFFSET, opaque=7, serialization=JSON)
    frame = encode_command(request.make_response(ResponseCode.TOPIC_NOT_EXIST, {"a": "ü"}, remark="no"))
    text = (
        '{"code":17,"extFields":{"a":"ü"},"flag":1,"language":"PYTHON","opaque":7,"remark":"no",'
        '"serializeTypeCurrentRPC":"JSON","version":513}'
    )
    assert frame[8:].decode() == text
    assert frame[:8] == struct.pack(">II", 4 + len(text.encode()), len(text.encode()))


@given(COMMANDS)
def test_a_command_survives(command: RemotingCommand) -> None:
    assert decode(encode_command(command)) == command


def test_the_body_is_no_copy() -> None:
    frame = encode_command(RemotingCommand(10, body=memoryview(b"body")))
    body = decode(frame).body
    assert isinstance(body, memoryview)
    assert body.obj is frame
    assert bytes(body) == b"body"


def test_neither_access_keys_nor_messages_are_in_the_repr() -> None:
    assert "secret" not in repr(RemotingCommand(10, {"SecurityToken": "secret"}, b"secret"))


def test_flags() -> None:
    assert [(c.is_response, c.is_oneway) for c in (RemotingCommand(1, flag=flag) for flag in range(4))] == [
        (False, False),
        (True, False),
        (False, True),
        (True, True),
    ]


def test_a_code_beyond_16_bits_travels_in_a_json_header() -> None:
    frame = encode_command(RemotingCommand(RequestCode.POP_MESSAGE))
    assert (decode(frame).code, decode(frame).serialization) == (200050, JSON)


def test_a_binary_header_has_no_empty_texts() -> None:
    command = RemotingCommand(1, {"a": "", "": "b", "c": "d"}, remark="")
    assert decode(encode_command(command)) == RemotingCommand(1, {"c": "d"})
    entries = (
        struct.pack(">H1sI", 1, b"a", 0) + struct.pack(">HI1s", 0, 1, b"b") + struct.pack(">H1sI1s", 1, b"c", 1, b"d")
    )
    header = struct.pack(">hBhiiI", 1, 3, 513, 0, 0, 0) + struct.pack(">I", len(entries)) + entries
    assert decode_command(struct.pack(">I", 1 << 24 | len(header)) + header) == RemotingCommand(1, {"c": "d"})


def decode_json(header: str) -> RemotingCommand:
    raw = header.encode()
    return decode_command(struct.pack(">I", len(raw)) + raw)


def test_a_json_header_may_lack_what_is_optional_and_have_more() -> None:
    read = decode_json('{"code":0,"language":"KOTLIN","more":[1],"extFields":{"a":1,"b":true,"c":null,"d":""}}')
    assert read == RemotingCommand(
        0, {"a": "1", "b": "true", "d": ""}, language=LanguageCode.OTHER, version=0, serialization=JSON
    )


def test_an_unknown_language_is_kept() -> None:
    command = RemotingCommand(0, language=99)
    assert decode(encode_command(command)).language == 99
    assert decode(encode_command(replace(command, serialization=JSON))).language == LanguageCode.OTHER


def test_bytes_that_are_no_utf_8_are_replaced() -> None:
    good = encode_command(RemotingCommand(0, {"a": "bc"}))
    assert decode(good.replace(b"bc", b"b\xff")).fields == {"a": "b\ufffd"}


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (RemotingCommand(0, opaque=2**31), "opaque is 2147483648, expected a number of 32 bits"),
        (RemotingCommand(0, flag=-(2**31) - 1), "flag is"),
        (RemotingCommand(2**31), "code is"),
        (RemotingCommand(0, version=2**15), "version is 32768"),
        (RemotingCommand(0, {"a": "\ud800"}), "half of a surrogate pair"),
        (RemotingCommand(0, {"a": "\ud800"}, serialization=JSON), "half of a surrogate pair"),
        (RemotingCommand(0, {"k" * 40_000: "v"}), "40000 bytes, expected at most 32767"),
    ],
)
def test_what_no_header_can_hold_is_refused(command: RemotingCommand, error: str) -> None:
    with pytest.raises(WireError, match=error):
        encode_command(command)


@pytest.mark.parametrize("serialization", Serialization)
def test_a_frame_has_at_most_16_mib(serialization: Serialization) -> None:
    empty = RemotingCommand(10, serialization=serialization)
    room = FRAME_BYTES_MAX - len(encode_command(empty))
    assert len(encode_command(replace(empty, body=bytes(room)))) == FRAME_BYTES_MAX
    with pytest.raises(FrameTooLarge, match=f"body of {room + 1} bytes"):
        encode_command(replace(empty, body=bytes(room + 1)))


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (b"", "0 bytes after its length"),
        (b"\0\0\0\x05{}", "names a header of 5 bytes, but only 2 follow"),
        (b"\2\0\0\x02{}", "serialization 2, expected 0"),
        (b"\0\0\0\x02[]", "no object"),
        (b"\0\0\0\x02{]", "JSON has ']' at character 1 of 2, expected a value"),
        (b"\1\0\0\x02{}", "ends before its fields begin"),
    ],
)
def test_a_broken_frame_is_explained(frame: bytes, error: str) -> None:
    with pytest.raises(WireError, match=error):
        decode_command(frame)


@pytest.mark.parametrize(
    ("header", "error"),
    [
        ('{"code":"x"}', "code is 'x'"),
        ('{"code":true}', "code is 'True'"),
        ('{"code":1.5}', "code is '1.5'"),
        ('{"code":4294967296}', "expected a number of 32 bits"),
        ('{"extFields":[1]}', "extFields is no object"),
        ('{"remark":1}', "remark no text"),
        ("[" * 100_000, "JSON has more than 64 objects and arrays inside each other"),
        ('{"code":' + "1" * 10_000 + "}", "a number of at most 400 digits"),
    ],
)
def test_a_broken_json_header_is_explained(header: str, error: str) -> None:
    with pytest.raises(WireError, match=error):
        decode_json(header)


def decode_or_explain(frame: bytes) -> RemotingCommand | str:
    try:
        return decode_command(frame)
    except WireError as error:
        return str(error)


def is_readable(result: RemotingCommand | str) -> bool:
    if isinstance(result, str):
        return 0 < len(result) < 400
    return all(isinstance(text, str) for entry in result.fields.items() for text in entry)


@given(command=COMMANDS, data=st.data())
def test_damaged_frames_give_a_command_or_an_error(command: RemotingCommand, data: st.DataObject) -> None:
    frame = bytearray(encode_command(command)[4:])
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(frame)))
    assert is_readable(decode_or_explain(bytes(frame[:cut])))


@given(st.binary(max_size=80), st.sampled_from([0, 1]))
def test_any_header_gives_a_command_or_an_error(header: bytes, serialization: int) -> None:
    assert is_readable(decode_or_explain(struct.pack(">I", serialization << 24 | len(header)) + header))
