"""Responses of the remoting protocol with long bodies: they are built in slices, up to the limit of frames."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from rmqpull_broker.server.remoting.calls import RemotingCall, RemotingService, Reply
from rmqpull_broker.server.remoting.wire.json_parts import Parts
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.frames import FRAME_BYTES_MAX, FrameTooLarge
from rmqpull_proto.remoting.header_fields import Header

Answer = Reply | Coroutine[Any, Any, Reply]


class _Body:
    """A single buffer, because joining and freeing a million parts takes longer than a turn of the event loop."""

    def __init__(self) -> None:
        self.data = bytearray()

    def take(self, part: bytes) -> None:
        self.data += part
        if len(self.data) > FRAME_BYTES_MAX:
            raise FrameTooLarge(f"the answer has more than {FRAME_BYTES_MAX} bytes, the max of a frame")


def answer(service: RemotingService, call: RemotingCall, parts: Parts, fields: Header | None = None) -> Answer:
    """Responds with a body of these parts, at once if one slice is enough. Raises FrameTooLarge."""
    body = _Body()
    if service.slices.begin(parts, body.take):
        return call.respond(fields, bytes(body.data))
    return _go_on(service, call, parts, body, fields)


async def answer_later(
    service: RemotingService, call: RemotingCall, parts: Parts, remark: str | None
) -> RemotingCommand:
    """Responds like :func:`answer`, for a handler that has already waited."""
    body = _Body()
    if service.slices.begin(parts, body.take):
        return call.respond(body=bytes(body.data), remark=remark)
    response = await _go_on(service, call, parts, body)
    response.remark = remark
    return response


async def _go_on(
    service: RemotingService, call: RemotingCall, parts: Parts, body: _Body, fields: Header | None = None
) -> RemotingCommand:
    with call.peer.ending_with_connection():
        await service.slices.finish(parts, body.take)
    return call.respond(fields, bytes(body.data))
