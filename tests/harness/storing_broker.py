"""A broker of the remoting protocol that keeps what is sent to it in lists, and refuses what a test asks it to."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.properties import decode_properties
from tests.harness.scripted_remoting import Reaction, ScriptedServer, refuse_code

_HEAD = struct.Struct(">iiiii")
_SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)


class StoredMessage(NamedTuple):
    """A message as a broker has stored it."""

    topic: str
    queue_id: int
    body: bytes
    properties: dict[str, str]
    sys_flag: int


class StoringBroker(ScriptedServer):
    """Stores the messages of all sends.

    ``reactions`` come first: each is for one send, and gets the request and its messages. If it returns None, the
    messages are stored. A broker that responds that a slave is away stores them too: pass ``stores`` to :meth:`answer`.
    """

    def __init__(self) -> None:
        super().__init__(self._react)
        self.stored: list[StoredMessage] = []
        self.reactions: list[Callable[[RemotingCommand, list[StoredMessage]], Reaction | None]] = []
        self.settings: bytes | None = b'{"attributes":{}}'

    def answer(self, code: int, remark: str = "", times: int = 1) -> None:
        """Answers the next sends with a code, and stores nothing."""
        self.reactions += [lambda request, _: request.make_response(code, remark=remark)] * times

    def refuse(self, is_illegal: Callable[[StoredMessage], bool], code: int = 13) -> None:
        """From now on, refuses each send with an illegal message."""

        def react(request: RemotingCommand, messages: list[StoredMessage]) -> Reaction | None:
            self.reactions.append(react)
            return request.make_response(code, remark="illegal") if any(map(is_illegal, messages)) else None

        self.reactions.append(react)

    def list_bodies(self, queue_id: int | None = None) -> list[bytes]:
        """Returns the bodies in the order in which they were stored: of one queue, or of all."""
        return [message.body for message in self.stored if queue_id in (None, message.queue_id)]

    @property
    def sends(self) -> list[RemotingCommand]:
        """All sends that have arrived."""
        return [request for request in self.requests if request.code in _SENDS]

    def _react(self, request: RemotingCommand) -> Reaction:
        if request.code == RequestCode.GET_TOPIC_CONFIG and self.settings is not None:
            return request.make_response(0, body=self.settings)
        if request.code not in _SENDS:
            return refuse_code(request)
        messages = read_messages(request)
        if self.reactions and (reaction := self.reactions.pop(0)(request, messages)) is not None:
            return reaction
        self.stored += messages
        return request.make_response(0, {"msgId": "0", "queueId": request.fields["e"], "queueOffset": "0"})


def read_messages(request: RemotingCommand) -> list[StoredMessage]:
    """Reads the messages of a send (rules 4.6, 4.10)."""
    fields, body = request.fields, bytes(request.body)
    topic, queue_id, sys_flag = fields["b"], int(fields["e"]), int(fields["f"])
    if request.code == RequestCode.SEND_MESSAGE_V2:
        return [StoredMessage(topic, queue_id, body, decode_properties(fields.get("i", "")), sys_flag)]
    found, at = [], 0
    while at < len(body):
        size, _, _, _, body_bytes = _HEAD.unpack_from(body, at)
        body_end = at + _HEAD.size + body_bytes
        properties = decode_properties(body[body_end + 2 : at + size].decode())
        found.append(StoredMessage(topic, queue_id, body[at + _HEAD.size : body_end], properties, sys_flag))
        at += size
    return found
