"""The results of a pull, and the code of each result in every protocol: one table (rules 3.3, 1.7.1).

The server, the tests and the documentation all use it.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from rmqpull_proto.remoting.codes import ResponseCode


class PullStatus(enum.Enum):
    """The result of reading a queue, by RocketMQ's names (rules 3.2.1)."""

    FOUND = enum.auto()
    NO_MATCHED_MESSAGE = enum.auto()
    NO_MESSAGE_IN_QUEUE = enum.auto()
    OFFSET_OVERFLOW_ONE = enum.auto()
    OFFSET_OVERFLOW_BADLY = enum.auto()
    OFFSET_TOO_SMALL = enum.auto()
    NO_MATCHED_LOGIC_QUEUE = enum.auto()
    OFFSET_RESET = enum.auto()
    OFFSET_FOUND_NULL = enum.auto()
    MESSAGE_WAS_REMOVING = enum.auto()
    NOT_REACHED = enum.auto()
    """Only in ``rmqpull.v1``: the response was full before this queue was read."""


class ClientStatus(NamedTuple):
    """A code as clients see it: their PullStatus (rules 1.7.1), and the code of a v2 response."""

    pull_status: str
    v2_code: str


CLIENT_STATUSES = {
    ResponseCode.SUCCESS: ClientStatus("FOUND", "OK"),
    ResponseCode.PULL_NOT_FOUND: ClientStatus("NO_NEW_MSG", "MESSAGE_NOT_FOUND"),
    ResponseCode.PULL_RETRY_IMMEDIATELY: ClientStatus("NO_MATCHED_MSG", "MESSAGE_NOT_FOUND"),
    ResponseCode.PULL_OFFSET_MOVED: ClientStatus("OFFSET_ILLEGAL", "ILLEGAL_OFFSET"),
}


class PullAnswer(NamedTuple):
    """One row: a status, the offset of the pull (``"0"``, ``"not 0"`` or ``"any"``), and the code."""

    status: PullStatus
    offset: str
    response: ResponseCode


PULL_ANSWERS = (
    PullAnswer(PullStatus.FOUND, "any", ResponseCode.SUCCESS),
    PullAnswer(PullStatus.MESSAGE_WAS_REMOVING, "any", ResponseCode.PULL_RETRY_IMMEDIATELY),
    PullAnswer(PullStatus.NO_MATCHED_MESSAGE, "any", ResponseCode.PULL_RETRY_IMMEDIATELY),
    PullAnswer(PullStatus.NO_MATCHED_LOGIC_QUEUE, "not 0", ResponseCode.PULL_OFFSET_MOVED),
    PullAnswer(PullStatus.NO_MATCHED_LOGIC_QUEUE, "0", ResponseCode.PULL_NOT_FOUND),
    PullAnswer(PullStatus.NO_MESSAGE_IN_QUEUE, "not 0", ResponseCode.PULL_OFFSET_MOVED),
    PullAnswer(PullStatus.NO_MESSAGE_IN_QUEUE, "0", ResponseCode.PULL_NOT_FOUND),
    PullAnswer(PullStatus.OFFSET_FOUND_NULL, "any", ResponseCode.PULL_NOT_FOUND),
    PullAnswer(PullStatus.OFFSET_OVERFLOW_ONE, "any", ResponseCode.PULL_NOT_FOUND),
    PullAnswer(PullStatus.OFFSET_OVERFLOW_BADLY, "any", ResponseCode.PULL_OFFSET_MOVED),
    PullAnswer(PullStatus.OFFSET_TOO_SMALL, "any", ResponseCode.PULL_OFFSET_MOVED),
    PullAnswer(PullStatus.OFFSET_RESET, "any", ResponseCode.PULL_OFFSET_MOVED),
)

_RESPONSES = {(answer.status, answer.offset): answer.response for answer in PULL_ANSWERS}


def find_response(status: PullStatus, offset: int) -> ResponseCode:
    """Returns the code of a status for a pull at ``offset``. NOT_REACHED gets the code of NO_MATCHED_MESSAGE."""
    if status is PullStatus.NOT_REACHED:
        return ResponseCode.PULL_RETRY_IMMEDIATELY
    any_offset = _RESPONSES.get((status, "any"))
    return _RESPONSES[status, "not 0" if offset else "0"] if any_offset is None else any_offset
