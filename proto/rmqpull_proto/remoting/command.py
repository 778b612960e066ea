"""``RemotingCommand``, a request or a response, as a frame with a JSON or a binary header (rules 4.2, 4.2.1)."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from rmqpull_proto.remoting.codes import VERSION, LanguageCode
from rmqpull_proto.remoting.frames import FRAME_BYTES_MAX, HEADER_BYTES_MAX, PREFIX_BYTES, FrameTooLarge
from rmqpull_proto.remoting.frames import WireError as WireError
from rmqpull_proto.remoting.json_dialect import read_json

REQUEST_HEADER_BYTES_MAX = 262_144
"""The largest header that a server reads. Java's clients send the properties of a message in it, with 32,767 bytes at
most (rules 3.10.1), or a filter. A JSON header has six bytes for a control character: 197,276 in all."""
_FIELDS_MAX = 4_096
"""Fields of such a header. Requests of Java's clients have some twenty."""
_HEADER_VALUES_MAX = 32_768

_RESPONSE = 1
ONEWAY = 2
"""The bit in the flag of a request whose sender expects no response."""
_MARK = struct.Struct(">I")
_FRAME_START = struct.Struct(">II")
_FIXED = struct.Struct(">hBhiiI")  # code, language, version, opaque, flag, length of the remark
_INT = struct.Struct(">I")
_KEY_LENGTH = struct.Struct(">H")
_SHORT_MAX = 0x7FFF
_INT_MAX = 0x7FFFFFFF
_LANGUAGES = LanguageCode.__members__
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)


class Serialization(IntEnum):
    """The form of a command's header."""

    JSON = 0
    BINARY = 1


@dataclass(slots=True)
class RemotingCommand:
    """A request or a response.

    ``fields`` are the header's own fields ("extFields"). ``opaque`` is the number of a request on its connection, which
    the response repeats. A body that was received is a view of the frame, not a copy. The ``repr`` has no fields and no
    body, as they may contain access keys and messages.
    """

    code: int
    fields: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | memoryview = field(default=b"", repr=False)
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    language: int = LanguageCode.PYTHON
    version: int = VERSION
    serialization: Serialization = Serialization.BINARY

    @property
    def is_response(self) -> bool:
        """Whether this is a response to a request."""
        return bool(self.flag & _RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether the sender expects no response."""
        return bool(self.flag & ONEWAY)

    def make_response(
        self,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes | memoryview = b"",
        remark: str | None = None,
    ) -> RemotingCommand:
        """Returns a response to this request, in the request's serialization."""
        return RemotingCommand(
            code, fields or {}, body, self.opaque, _RESPONSE, remark, serialization=self.serialization
        )


def encode_command(command: RemotingCommand) -> bytes:
    """Returns a command as a whole frame, with its length.

    A binary header has 16 bits for the code. A larger code is sent with a JSON header, which every receiver reads. A
    binary header cannot tell an empty text from a missing one, so empty fields are left out (rules 4.2.1). Raises
    ``FrameTooLarge``, and ``WireError`` for a number or a text that the header cannot hold.
    """
    serialization = command.serialization
    if not _fits(command.code, _SHORT_MAX):
        serialization = Serialization.JSON
    for name, number in (("opaque", command.opaque), ("flag", command.flag), ("code", command.code)):
        if not _fits(number, _INT_MAX):
            raise WireError(f"{name} is {number}, expected a number of 32 bits")
    try:
        header = _encode_binary(command) if serialization is Serialization.BINARY else _encode_json(command)
    except UnicodeEncodeError as error:
        raise WireError(f"the header contains half of a surrogate pair, which has no bytes in UTF-8: {error}") from None
    body_bytes = memoryview(command.body).nbytes
    length = PREFIX_BYTES + len(header) + body_bytes
    if PREFIX_BYTES + length > FRAME_BYTES_MAX or len(header) > HEADER_BYTES_MAX:
        raise FrameTooLarge(
            f"command {command.code} has a header of {len(header)} and a body of {body_bytes} bytes; "
            f"a frame has at most {FRAME_BYTES_MAX}"
        )
    start = _FRAME_START.pack(length, serialization << 24 | len(header))
    return b"".join((start, header, command.body))


def _fits(number: int, highest: int) -> bool:
    # ``number in range(...)`` would try each number of the range if this one is a member of an enum.
    return -highest - 1 <= number <= highest


def _encode_binary(command: RemotingCommand) -> bytes:
    if not _fits(command.version, _SHORT_MAX) or not 0 <= command.language < 256:
        raise WireError(
            f"version is {command.version} and language is {command.language}, "
            "expected numbers that fit 16 and 8 bits of the binary header"
        )
    remark = (command.remark or "").encode()
    pairs: list[bytes] = []
    for name, value in command.fields.items():
        key, text = name.encode(), value.encode()
        if len(key) > _SHORT_MAX:
            raise WireError(f"the name of a field has {len(key)} bytes, expected at most {_SHORT_MAX}")
        if key and text:
            pairs += (_KEY_LENGTH.pack(len(key)), key, _INT.pack(len(text)), text)
    entries = b"".join(pairs)
    fixed = _FIXED.pack(command.code, command.language, command.version, command.opaque, command.flag, len(remark))
    return b"".join((fixed, remark, _INT.pack(len(entries)), entries))


def _encode_json(command: RemotingCommand) -> bytes:
    # Names in alphabetical order, as in Apache's commands.
    header: dict[str, Any] = {"code": int(command.code)}
    if command.fields:
        header["extFields"] = dict(command.fields)
    header["flag"] = command.flag
    header["language"] = _name_language(command.language)
    header["opaque"] = command.opaque
    if command.remark is not None:
        header["remark"] = command.remark
    header["serializeTypeCurrentRPC"] = "JSON"
    header["version"] = command.version
    return _ENCODER.encode(header).encode()


def _name_language(language: int) -> str:
    try:
        return LanguageCode(language).name
    except ValueError:
        return LanguageCode.OTHER.name


def decode_command(frame: bytes | memoryview, *, header_bytes_max: int = HEADER_BYTES_MAX) -> RemotingCommand:
    """Reads a command from a frame without its length.

    Unknown names in the header are ignored. Fields that are null, and empty ones of a binary header, are left out
    (rules 4.2.1). A server sets ``header_bytes_max``: a larger header is not read, and the number of fields in a
    smaller one is limited, too. Raises ``WireError``.
    """
    view = memoryview(frame)
    if len(view) < PREFIX_BYTES:
        raise WireError(f"a frame has {len(view)} bytes after its length, too few for a command")
    (mark,) = _MARK.unpack_from(view)
    header_end = PREFIX_BYTES + (mark & HEADER_BYTES_MAX)
    if header_end > len(view):
        raise WireError(
            f"a frame names a header of {header_end - PREFIX_BYTES} bytes, but only {len(view) - PREFIX_BYTES} follow"
        )
    refuse_large_header(view, 0, header_bytes_max)
    is_limited = header_bytes_max < HEADER_BYTES_MAX
    header, body = bytes(view[PREFIX_BYTES:header_end]), view[header_end:]
    serialization = mark >> 24
    if serialization == Serialization.BINARY:
        return _decode_binary(header, body, is_limited=is_limited)
    if serialization == Serialization.JSON:
        return _decode_json(header, body, _HEADER_VALUES_MAX if is_limited else None)
    raise WireError(f"a frame names serialization {serialization}, expected 0 (JSON) or 1 (binary)")


def refuse_large_header(buffer: bytes | memoryview, at: int, header_bytes_max: int) -> None:
    """Refuses a frame by the size of its header, even before the frame is complete.

    ``buffer[at:]`` begins with the four bytes that follow the frame's length. Raises ``WireError``.
    """
    (mark,) = _MARK.unpack_from(buffer, at)
    if (header_bytes := mark & HEADER_BYTES_MAX) > header_bytes_max:
        raise WireError(f"a header has {header_bytes} bytes, expected at most {header_bytes_max}")


def _decode_binary(header: bytes, body: memoryview, *, is_limited: bool) -> RemotingCommand:
    try:
        code, language, version, opaque, flag, remark_bytes = _FIXED.unpack_from(header)
        at = _FIXED.size + remark_bytes
        remark = header[_FIXED.size : at].decode(errors="replace") or None
        (entries_bytes,) = _INT.unpack_from(header, at)
    except struct.error:
        raise WireError(f"a binary header of {len(header)} bytes ends before its fields begin") from None
    at += _INT.size
    end = at + entries_bytes
    if end > len(header):
        raise WireError(f"a binary header of {len(header)} bytes names {entries_bytes} bytes of fields at byte {at}")
    fields = _decode_entries(header, at, end, _FIELDS_MAX if is_limited else len(header))
    return RemotingCommand(code, fields, body, opaque, flag, remark, language, version, Serialization.BINARY)


def _decode_entries(header: bytes, at: int, end: int, fields_max: int) -> dict[str, str]:
    """Reads the fields in ``header[at:end]``. Each takes at least 6 bytes, so the loop ends."""
    fields: dict[str, str] = {}
    read_key_length, read_length = _KEY_LENGTH.unpack_from, _INT.unpack_from
    for _ in range(fields_max):
        if at >= end:
            return fields
        try:
            key_end = at + 2 + read_key_length(header, at)[0]
            value_start = key_end + 4
            value_end = value_start + read_length(header, key_end)[0]
        except struct.error:
            value_end = len(header) + 1
        if value_end > end:
            raise WireError(f"a field at byte {at} of a binary header goes beyond the end of the fields, byte {end}")
        if key_end > at + 2 and value_end > value_start:
            # Java's reader replaces bytes that are not UTF-8 by U+FFFD.
            fields[header[at + 2 : key_end].decode(errors="replace")] = header[value_start:value_end].decode(
                errors="replace"
            )
        at = value_end
    if at < end:
        raise WireError(f"a binary header has more than {fields_max} fields")
    return fields


def _decode_json(header: bytes, body: memoryview, values_max: int | None) -> RemotingCommand:
    read = read_json(header, values_max=values_max)
    if not isinstance(read, dict):
        raise WireError(f"a JSON header is no object; it begins with {header[:40]!r}")
    fields = read.get("extFields") or {}
    remark = read.get("remark")
    if not isinstance(fields, dict) or not isinstance(remark, (str, type(None))):
        raise WireError("extFields is no object, or remark no text, in a JSON header")
    if values_max is not None and len(fields) > _FIELDS_MAX:
        raise WireError(f"a JSON header has {len(fields)} fields, expected at most {_FIELDS_MAX}")
    return RemotingCommand(
        code=_read_number(read, "code"),
        fields={
            name: value if type(value) is str else _write_text(value)
            for name, value in fields.items()
            if value is not None
        },
        body=body,
        opaque=_read_number(read, "opaque"),
        flag=_read_number(read, "flag"),
        remark=remark,
        language=_LANGUAGES.get(str(read.get("language")), LanguageCode.OTHER),
        version=_read_number(read, "version"),
        serialization=Serialization.JSON,
    )


def _read_number(header: Mapping[str, Any], name: str) -> int:
    value = header.get(name, 0)
    if type(value) is int and -_INT_MAX <= value <= _INT_MAX:
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not _fits(value, _INT_MAX):
        raise WireError(f"{name} is {str(value)[:40]!r} in a JSON header, expected a number of 32 bits")
    return value


def _write_text(value: Any) -> str:
    """Returns the value of a field as text. Senders other than Apache's may write numbers."""
    return json.dumps(value, ensure_ascii=False)
