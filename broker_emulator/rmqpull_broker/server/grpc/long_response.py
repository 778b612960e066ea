"""The response of an RPC with a long list, serialized part by part: concatenated protobuf parts join their lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from google.protobuf.message import Message

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.server.limits import LIST_RESPONSE_BYTES_MAX
from rmqpull_broker.server.runtime.slices import Slices

M = TypeVar("M", bound=Message)


class LongResponse:
    """The part of a message's interface that gRPC needs from a response."""

    def __init__(self, head: Any) -> None:
        self.status = head.status
        # A single buffer, because joining and freeing a million parts takes longer than a turn of the event loop.
        self._data = bytearray(head.SerializeToString())

    def take(self, part: Message) -> None:
        """Adds a part. Raises BadRequest above the largest response."""
        self._data += part.SerializeToString()
        if len(self._data) > LIST_RESPONSE_BYTES_MAX:
            raise BadRequest(
                f"the response has more than {LIST_RESPONSE_BYTES_MAX} bytes; request fewer groups or topics"
            )

    def SerializeToString(self) -> bytes:
        """Returns the response in protobuf's format."""
        return bytes(self._data)


async def respond(slices: Slices, head: M, parts: Iterator[M | None]) -> M:
    """Returns the response whose first fields are in ``head``, with the lists of all parts. Raises BadRequest.

    It is not really a message: gRPC only serializes it, and other code only reads its status.
    """
    response: Any = LongResponse(head)
    if not slices.begin(parts, response.take):
        await slices.finish(parts, response.take)
    return response  # type: ignore[no-any-return]
