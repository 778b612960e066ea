"""The results of a pull, and the code of each result in every protocol: one table (rules 3.3, 1.7.1).

The server, the tests and the documentation use it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

MASTER_ID = 0


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
    """Only in ``rmqpull.v1``: the response was full before this queue."""


class PullResponse(enum.IntEnum):
    """Response codes of the remoting protocol."""

    SUCCESS = 0
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21


class ClientStatus(NamedTuple):
    """A code as clients see it: their PullStatus (rules 1.7.1), and the code of a v2 response."""

    pull_status: str
    v2_code: str


CLIENT_STATUSES = {
    PullResponse.SUCCESS: ClientStatus("FOUND", "OK"),
    PullResponse.PULL_NOT_FOUND: ClientStatus("NO_NEW_MSG", "MESSAGE_NOT_FOUND"),
    PullResponse.PULL_RETRY_IMMEDIATELY: ClientStatus("NO_MATCHED_MSG", "MESSAGE_NOT_FOUND"),
    PullResponse.PULL_OFFSET_MOVED: ClientStatus("OFFSET_ILLEGAL", "ILLEGAL_OFFSET"),
}


class PullAnswer(NamedTuple):
    """One row: a status, the offset of the pull (``"0"``, ``"not 0"`` or ``"any"``), and the code."""

    status: PullStatus
    offset: str
    response: PullResponse


PULL_ANSWERS = (
    PullAnswer(PullStatus.FOUND, "any", PullResponse.SUCCESS),
    PullAnswer(PullStatus.MESSAGE_WAS_REMOVING, "any", PullResponse.PULL_RETRY_IMMEDIATELY),
    PullAnswer(PullStatus.NO_MATCHED_MESSAGE, "any", PullResponse.PULL_RETRY_IMMEDIATELY),
    PullAnswer(PullStatus.NO_MATCHED_LOGIC_QUEUE, "not 0", PullResponse.PULL_OFFSET_MOVED),
    PullAnswer(PullStatus.NO_MATCHED_LOGIC_QUEUE, "0", PullResponse.PULL_NOT_FOUND),
    PullAnswer(PullStatus.NO_MESSAGE_IN_QUEUE, "not 0", PullResponse.PULL_OFFSET_MOVED),
    PullAnswer(PullStatus.NO_MESSAGE_IN_QUEUE, "0", PullResponse.PULL_NOT_FOUND),
    PullAnswer(PullStatus.OFFSET_FOUND_NULL, "any", PullResponse.PULL_NOT_FOUND),
    PullAnswer(PullStatus.OFFSET_OVERFLOW_ONE, "any", PullResponse.PULL_NOT_FOUND),
    PullAnswer(PullStatus.OFFSET_OVERFLOW_BADLY, "any", PullResponse.PULL_OFFSET_MOVED),
    PullAnswer(PullStatus.OFFSET_TOO_SMALL, "any", PullResponse.PULL_OFFSET_MOVED),
    PullAnswer(PullStatus.OFFSET_RESET, "any", PullResponse.PULL_OFFSET_MOVED),
)

_RESPONSES = {(answer.status, answer.offset): answer.response for answer in PULL_ANSWERS}


def find_response(status: PullStatus, offset: int) -> PullResponse:
    """Returns the code of a status for a pull at ``offset``. NOT_REACHED gets the code of NO_MATCHED_MESSAGE."""
    if status is PullStatus.NOT_REACHED:
        return PullResponse.PULL_RETRY_IMMEDIATELY
    any_offset = _RESPONSES.get((status, "any"))
    return _RESPONSES[status, "not 0" if offset else "0"] if any_offset is None else any_offset


@dataclass(frozen=True)
class ReadRole:
    """The role of the replica that reads. Every broker here is a master, which is the default.

    ``has_master`` says whether a slave has a master. The ids are the group's ``brokerId`` and
    ``whichBrokerWhenConsumeSlowly``.
    """

    is_slave: bool = False
    slave_read_enable: bool = False
    offset_check_in_slave: bool = False
    has_master: bool = True
    broker_id: int = MASTER_ID
    which_broker_when_consume_slowly: int = 1

    def correct(self, offset: int, next_offset: int) -> int:
        """Returns ``next_offset`` if this replica may correct a wrong offset (``nextOffsetCorrection``, rules
        3.2.1)."""
        return offset if self.is_slave and not self.offset_check_in_slave else next_offset


MASTER = ReadRole()


class Suggestion(NamedTuple):
    """The code of a response, and ``suggestWhichBrokerId``: the broker of the client's next pull."""

    response: PullResponse
    which_broker_id: int


def suggest(status: PullStatus, offset: int, role: ReadRole = MASTER, *, from_slave: bool = False) -> Suggestion:
    """Returns the code and the suggested broker for a status (rules 3.3.1, 3.3.2).

    ``from_slave`` is suggestPullingFromSlave: the last scanned message is not within 40 % of the memory (rules 3.2.3).
    """
    response, which = find_response(status, offset), MASTER_ID
    if role.slave_read_enable:
        which = role.which_broker_when_consume_slowly if from_slave else role.broker_id
    if role.is_slave and not from_slave and role.has_master:
        if status is not PullStatus.FOUND:
            response = PullResponse.PULL_RETRY_IMMEDIATELY
        return Suggestion(response, MASTER_ID)
    if response is PullResponse.PULL_OFFSET_MOVED and role.is_slave and not role.offset_check_in_slave:
        return Suggestion(PullResponse.PULL_RETRY_IMMEDIATELY, role.broker_id)
    return Suggestion(response, which)
