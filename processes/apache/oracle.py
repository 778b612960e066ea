"""What Apache's own classes say about bytes: the judge of property tests of the wire."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from processes.apache.java_programs import start_java
from processes.apache.releases import Release

RESPONSE_WITHIN_S = 60.0


class JavaRefused(Exception):
    """Apache's class raised an exception. The text is that of the exception."""


class JavaOracle:
    """One Java process that calls Apache's classes; a call takes well below a millisecond.

    JSON forms: bytes are base64 text, see :func:`to_text` and :func:`to_bytes`. Java's null is None. All calls raise
    JavaRefused.
    """

    def __init__(self, release: Release) -> None:
        self.release = release
        self._folder = tempfile.TemporaryDirectory(prefix="rmqpull-oracle-", ignore_cleanup_errors=True)
        log = Path(self._folder.name) / "log"
        self._process = start_java(release, "Oracle", log, has_input=True)

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._folder.cleanup()

    def __enter__(self) -> JavaOracle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- commands: {code, language, version, opaque, flag, remark, serializeType, extFields, body}

    def decode_command(self, frame: bytes) -> dict[str, Any]:
        """`RemotingCommand.decode` of a whole frame, with its length."""
        return self._dict("decodeCommand", frame=to_text(frame))

    def encode_command(self, command: Mapping[str, Any]) -> bytes:
        """`RemotingCommand.encode`: a whole frame. ``serializeType`` is JSON or ROCKETMQ."""
        return self._bytes("encodeCommand", command=command)

    def encode_header(self, type_name: str, values: Mapping[str, Any]) -> dict[str, str]:
        """Returns the ext fields of a header class, such as `PullMessageRequestHeader`, with these Java fields."""
        return self._dict("encodeHeader", type=type_name, values=values)

    def decode_header(self, type_name: str, ext_fields: Mapping[str, str]) -> dict[str, Any]:
        """Returns the Java fields of a header class that was read from ext fields."""
        return self._dict("decodeHeader", type=type_name, extFields=ext_fields)

    def sign(
        self, command: Mapping[str, Any], access_key: str, secret_key: str, security_token: str | None = None
    ) -> dict[str, str]:
        """`AclClientRPCHook`: returns the ext fields of the signed command."""
        keys = {"accessKey": access_key, "secretKey": secret_key, "securityToken": security_token}
        return self._dict("sign", command=command, **keys)

    def sign_content(self, data: bytes, secret_key: str) -> str:
        """`AclUtils.calSignature`."""
        return self._text("signature", data=to_text(data), secretKey=secret_key)

    # ---- bodies that are JSON

    def decode_body(self, type_name: str, data: bytes) -> Any:
        """Reads a body as its class, such as `TopicRouteData` or `ClusterInfo`. Returns it as standard JSON values."""
        return self._call("decodeBody", type=type_name, data=to_text(data))

    def encode_body(self, type_name: str, value: Any, is_standard: bool = False) -> bytes:
        """Writes a body from standard JSON values: as `RemotingSerializable.encode`, or as standard JSON."""
        return self._bytes("encodeBody", type=type_name, value=value, standard=is_standard)

    def parse_json(self, text: str) -> Any:
        """`JSON.parse` of fastjson. Keys that are no texts become JSON."""
        return self._call("parseJson", text=text)

    def print_json(self, value: Any) -> str:
        """`JSON.toJSONString` of fastjson."""
        return self._text("printJson", value=value)

    # ---- messages: {topic, flag, body, properties, queueId, queueOffset, ...}, by the names of Java's MessageExt

    def decode_messages(self, data: bytes, unwrap: bool = False) -> list[dict[str, Any]]:
        """`MessageDecoder.decodes` of a pull response's body. With ``unwrap``, inner batches become single messages."""
        return self._list("decodeMessages", data=to_text(data), unwrap=unwrap)

    def encode_message(self, message: Mapping[str, Any]) -> bytes:
        """`MessageDecoder.encode`: a stored message. Its body is compressed if ``sysFlag`` says so.

        Its magic is that of short topics always.
        """
        return self._bytes("encodeMessage", message=message)

    def encode_batch(self, messages: Sequence[Mapping[str, Any]]) -> bytes:
        """`MessageDecoder.encodeMessages` of ``{flag, body, properties}``."""
        return self._bytes("encodeBatch", messages=messages)

    def decode_batch(self, data: bytes) -> list[dict[str, Any]]:
        """`MessageDecoder.decodeMessages`."""
        return self._list("decodeBatch", data=to_text(data))

    def decode_properties(self, text: str) -> dict[str, str]:
        """`MessageDecoder.string2messageProperties`."""
        return self._dict("decodeProperties", text=text)

    def encode_properties(self, properties: Mapping[str, str]) -> str:
        """`MessageDecoder.messageProperties2String`. The order is that of a Java HashMap."""
        return self._text("encodeProperties", properties=properties)

    # ---- ids

    def create_message_id(self, host: str, port: int, offset: int) -> str:
        """`MessageDecoder.createMessageId`: the offsetMsgId."""
        return self._text("createMessageId", host=host, port=port, offset=offset)

    def decode_message_id(self, message_id: str) -> dict[str, Any]:
        """`MessageDecoder.decodeMessageId`: ``{host, port, offset}``."""
        return self._dict("decodeMessageId", id=message_id)

    def create_unique_id(self) -> str:
        """`MessageClientIDSetter.createUniqID`."""
        return self._text("createUniqueId")

    def read_time_of_unique_id(self, unique_id: str) -> int:
        """`MessageClientIDSetter.getNearlyTimeFromID`, in milliseconds."""
        return self._int("timeOfUniqueId", id=unique_id)

    def read_host_of_unique_id(self, unique_id: str) -> str:
        """`MessageClientIDSetter.getIPStrFromID`."""
        return self._text("hostOfUniqueId", id=unique_id)

    # ---- constants, bytes and hashes

    def read_constants(self, type_name: str) -> dict[str, Any]:
        """Returns the public constants of a class, such as `RequestCode`; of an enum, the ordinals."""
        return self._dict("constants", type=type_name)

    def compress(self, compression_type: str, data: bytes, level: int = 5) -> bytes:
        """`CompressorFactory`: ZLIB, LZ4 or ZSTD."""
        return self._bytes("compress", type=compression_type, data=to_text(data), level=level)

    def decompress(self, compression_type: str, data: bytes) -> bytes:
        """`CompressorFactory`: ZLIB, LZ4 or ZSTD."""
        return self._bytes("decompress", type=compression_type, data=to_text(data))

    def crc32(self, data: bytes) -> int:
        """`UtilAll.crc32`."""
        return self._int("crc32", data=to_text(data))

    def hash_code(self, text: str) -> int:
        """`String.hashCode`."""
        return self._int("hashCode", text=text)

    def hash_consistently(self, hash_code: int, buckets: int) -> int:
        """Guava's `Hashing.consistentHash` of a hash code of 32 bits. Only 5.x has it."""
        return self._int("consistentHash", hash=hash_code, buckets=buckets)

    # ---- pop

    def call_extra_info(self, method: str, *arguments: Any) -> Any:
        """Calls a method of `ExtraInfoUtil`; only 5.x has it. A `StringBuilder` is a text here."""
        return self._call("extraInfo", method=method, arguments=arguments)

    # ---- calls

    def _call(self, name: str, **request: Any) -> Any:
        self._process.write_line(json.dumps({"call": name, **request}))
        try:
            line = self._process.read_line(RESPONSE_WITHIN_S)
        except EOFError:
            raise RuntimeError(f"The oracle has ended.{self._process.log_end()}") from None
        if line is None:
            raise RuntimeError(f"The oracle gave no response within {RESPONSE_WITHIN_S:.0f} s to {name}.")
        response = json.loads(line)
        if "error" in response:
            raise JavaRefused(response["error"])
        return response["result"]

    def _bytes(self, name: str, **request: Any) -> bytes:
        return to_bytes(self._text(name, **request))

    def _text(self, name: str, **request: Any) -> str:
        result = self._call(name, **request)
        assert isinstance(result, str), result
        return result

    def _int(self, name: str, **request: Any) -> int:
        result = self._call(name, **request)
        assert isinstance(result, int), result
        return result

    def _dict(self, name: str, **request: Any) -> dict[str, Any]:
        result = self._call(name, **request)
        assert isinstance(result, dict), result
        return result

    def _list(self, name: str, **request: Any) -> list[dict[str, Any]]:
        result = self._call(name, **request)
        assert isinstance(result, list), result
        return result


def to_text(data: bytes) -> str:
    """Returns bytes as base64 text, as the JSON forms have them."""
    return base64.b64encode(data).decode()


def to_bytes(text: str) -> bytes:
    """Returns the bytes of base64 text."""
    return base64.b64decode(text)
