"""Responses to pulls as whole frames (rules 4.1, 4.2, 4.5).

A broker sends thousands of them in a second, and they differ in a few numbers. So their headers are templates. The
commands are those of ``encode_command``, at a tenth of its time.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from rmqpull_proto.remoting.codes import VERSION, LanguageCode
from rmqpull_proto.remoting.command import RemotingCommand, Serialization
from rmqpull_proto.remoting.frames import FRAME_BYTES_MAX, PREFIX_BYTES, FrameTooLarge

_START = struct.Struct(">II")
_JSON = (
    b'{"code":%d,"extFields":{"suggestWhichBrokerId":"0","nextBeginOffset":"%d","minOffset":"%d","maxOffset":"%d",'
    b'"topicSysFlag":"0","groupSysFlag":"%d"},"flag":1,"language":"JAVA","opaque":%d,"remark":"%b",'
    b'"serializeTypeCurrentRPC":"JSON","version":' + str(VERSION).encode() + b"}"
)
_FIXED = struct.Struct(">hBhiiI")
_LENGTH = struct.Struct(">I")
_RESPONSE = 1


class PullResponse(NamedTuple):
    """The response of a master without slaves. ``remark`` is the name of a status, in ASCII.

    ``body`` has the parts of the body, and ``group_sys_flag`` is the flag of the group that pulls.
    """

    code: int
    remark: str
    next_begin_offset: int
    min_offset: int
    max_offset: int
    body: Sequence[bytes | memoryview] = ()
    group_sys_flag: int = 0


def encode_pull_response(request: RemotingCommand, response: PullResponse) -> bytes:
    """Returns the response as a frame, in the serialization of the request. Raises ``FrameTooLarge``."""
    code, remark, *offsets, body, group_sys_flag = response
    if request.serialization is Serialization.JSON:
        header = _JSON % (code, *offsets, group_sys_flag, request.opaque, remark.encode())
    else:
        header = _encode_binary(code, request.opaque, remark.encode(), offsets, group_sys_flag)
    length = PREFIX_BYTES + len(header) + sum(map(len, body))
    if length + PREFIX_BYTES > FRAME_BYTES_MAX:
        raise FrameTooLarge(f"a response to a pull has {length} bytes; a frame has at most {FRAME_BYTES_MAX}")
    return b"".join((_START.pack(length, request.serialization << 24 | len(header)), header, *body))


def _make_name(name: str) -> bytes:
    return struct.pack(">H", len(name)) + name.encode()


_NEXT, _MIN, _MAX, _GROUP = map(_make_name, ("nextBeginOffset", "minOffset", "maxOffset", "groupSysFlag"))
_ZEROS = b"".join(_make_name(name) + _LENGTH.pack(1) + b"0" for name in ("suggestWhichBrokerId", "topicSysFlag"))


def _encode_binary(code: int, opaque: int, remark: bytes, offsets: Sequence[int], group_sys_flag: int) -> bytes:
    first, smallest, largest, flag = (b"%d" % number for number in (*offsets, group_sys_flag))
    pack = _LENGTH.pack
    entries = b"".join(
        (
            *(_NEXT, pack(len(first)), first, _MIN, pack(len(smallest)), smallest, _MAX, pack(len(largest)), largest),
            *(_ZEROS, _GROUP, pack(len(flag)), flag),
        )
    )
    fixed = _FIXED.pack(code, LanguageCode.JAVA, VERSION, opaque, _RESPONSE, len(remark))
    return b"".join((fixed, remark, pack(len(entries)), entries))
