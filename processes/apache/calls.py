"""Single calls to Apache's servers over the remoting protocol."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rmqpull_client.transports.remoting.signing import sign_fields
from rmqpull_proto.remoting.command import RemotingCommand, Serialization, decode_command, encode_command
from rmqpull_proto.remoting.frames import PREFIX_BYTES

CALL_TIMEOUT_S = 15.0


@dataclass(frozen=True)
class Credentials:
    """An access key and its secret key."""

    access_key: str
    secret_key: str = field(repr=False)


@dataclass(frozen=True)
class Response:
    """A response to a call."""

    code: int
    remark: str
    fields: dict[str, str]
    body: bytes


class CallRefused(Exception):
    """A server responded with a code other than 0."""

    def __init__(self, address: str, request_code: int, response: Response) -> None:
        super().__init__(f"{address} refused request {request_code} with code {response.code}: {response.remark}")
        self.code = response.code


class Calls:
    """Sends requests. Each has a connection of its own, with TLS if there is a ``tls`` context."""

    def __init__(self, credentials: Credentials | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._credentials = credentials
        self._tls = tls

    def call(
        self,
        address: str,
        code: int,
        fields: Mapping[str, Any] | None = None,
        body: bytes = b"",
        refusals_allowed: tuple[int, ...] = (),
    ) -> Response:
        """Sends one request and returns the response. Field values become texts.

        Raises CallRefused when the response's code is neither 0 nor allowed, and OSError when there is no response.
        """
        texts = {name: str(value) for name, value in (fields or {}).items()}
        if self._credentials is not None:
            texts |= sign_fields(texts, body, self._credentials.access_key, self._credentials.secret_key)
        with self._connect(address) as connection:
            connection.sendall(encode_command(RemotingCommand(code, texts, body, serialization=Serialization.JSON)))
            length = int.from_bytes(_receive(connection, PREFIX_BYTES), "big")
            command = decode_command(_receive(connection, length))
        response = Response(command.code, command.remark or "", dict(command.fields), bytes(command.body))
        if response.code and response.code not in refusals_allowed:
            raise CallRefused(address, code, response)
        return response

    @contextmanager
    def _connect(self, address: str) -> Iterator[socket.socket]:
        host, port = address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), CALL_TIMEOUT_S) as plain:
            if self._tls is None:
                yield plain
                return
            with self._tls.wrap_socket(plain, server_hostname=host) as secured:
                yield secured


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("The server closed the connection before its response was complete.")
        parts += part
    return bytes(parts)
