"""A client of the remoting protocol as a test plays it: one connection, raw requests, and what the broker asks."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rmqpull_proto.remoting.codes import VERSION, LanguageCode, RequestCode
from rmqpull_proto.remoting.command import ONEWAY, RemotingCommand, Serialization, decode_command, encode_command
from rmqpull_proto.remoting.heartbeats import GroupMembership, HeartbeatData, Subscription
from rmqpull_proto.remoting.json_dialect import read_json

WITHIN_S = 15.0


class RemotingMember:
    """A connection to one broker. Commands that are no response to a request of ours are kept for :meth:`receive`."""

    def __init__(
        self, address: str, client_id: str = "tester", *, language: int = LanguageCode.PYTHON, version: int = VERSION
    ) -> None:
        host, port = address.rsplit(":", 1)
        self.client_id = client_id
        self._language, self._version = language, version
        self._socket = socket.create_connection((host, int(port)), WITHIN_S)
        # As Java's clients. Otherwise a request waits until one before it without a response is acknowledged: 40 ms.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self._opaques = itertools.count(1)
        self._received: list[RemotingCommand] = []

    def __enter__(self) -> RemotingMember:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._file.close()
        self._socket.close()

    # --- requests to the broker ---------------------------------------------------------------------------------------

    def call(self, code: int, fields: Mapping[str, Any] | None = None, body: bytes = b"") -> RemotingCommand:
        """Sends a request and returns its response, whatever its code is."""
        opaque = self.start(code, fields, body)
        while True:
            command = self._read()
            if command.is_response and command.opaque == opaque:
                return command
            self._received.append(command)

    def start(
        self, code: int, fields: Mapping[str, Any] | None = None, body: bytes = b"", *, is_oneway: bool = False
    ) -> int:
        """Sends a request, and returns its number without waiting for the response."""
        opaque = next(self._opaques)
        texts = {name: str(value) for name, value in (fields or {}).items()}
        flag = ONEWAY if is_oneway else 0
        command = RemotingCommand(code, texts, body, opaque, flag, serialization=Serialization.JSON)
        command.language, command.version = self._language, self._version
        self._socket.sendall(encode_command(command))
        return opaque

    def beat(self, *groups: str | GroupMembership, **options: Any) -> Mapping[str, str]:
        """Sends a heartbeat as a consumer of ``orders`` in these groups. Returns the fields of the response."""
        consumers = tuple(make_membership(each) if isinstance(each, str) else each for each in groups)
        body = HeartbeatData(self.client_id, consumers, **options).encode()
        response = self.call(RequestCode.HEART_BEAT, body=body)
        assert response.code == 0, response
        return response.fields

    def list_members(self, group: str) -> list[str] | str:
        """Returns the client ids of a group, sorted, or the remark of the refusal."""
        response = self.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
        if response.code:
            return str(response.remark)
        return sorted(read_json(response.body)["consumerIdList"])

    # --- requests of the broker ---------------------------------------------------------------------------------------

    def receive(self) -> RemotingCommand:
        """Returns the next request of the broker."""
        return self._received.pop(0) if self._received else self._read()

    def respond(self, request: RemotingCommand, code: int = 0, body: bytes = b"") -> None:
        """Sends the response to a request of the broker."""
        self._socket.sendall(encode_command(request.make_response(code, body=body)))

    def list_notices(self) -> list[str]:
        """Returns the groups of all NOTIFY_CONSUMER_IDS_CHANGED so far. All that was sent before has arrived then."""
        self.list_members("no such group")
        notices, self._received = self._received, []
        assert all(notice.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED and notice.is_oneway for notice in notices)
        return [notice.fields["consumerGroup"] for notice in notices]

    def is_closed(self) -> bool:
        """Waits until the broker closes the connection, and returns whether it sent nothing more."""
        return self._file.read(1) == b""

    def _read(self) -> RemotingCommand:
        length = int.from_bytes(self._read_exactly(4), "big")
        return decode_command(self._read_exactly(length))

    def _read_exactly(self, size: int) -> bytes:
        read = self._file.read(size)
        if len(read) < size:
            raise ConnectionError("the broker has closed the connection")
        return read


def make_membership(group: str, *topics: str, **options: Any) -> GroupMembership:
    """A consumer in a group, which subscribes to ``topics``, or to ``orders``."""
    subscriptions = tuple(Subscription(topic, "*", 1) for topic in topics or ("orders",))
    return GroupMembership(group, subscriptions=subscriptions, **options)
