"""What each finding is answered (rules 3.3, 1.7.1), and where a client is sent next (rules 3.3.2)."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.pulling.answers import (
    CLIENT_STATUSES,
    PULL_ANSWERS,
    PullResponse,
    PullStatus,
    ReadRole,
    find_response,
    suggest,
)

FOUND, NO_NEW, NO_MATCHED, ILLEGAL = (0, "FOUND"), (19, "NO_NEW_MSG"), (20, "NO_MATCHED_MSG"), (21, "OFFSET_ILLEGAL")


@pytest.mark.parametrize(
    ("status", "offset", "answer", "v2_code"),
    [
        ("FOUND", 5, FOUND, "OK"),
        ("MESSAGE_WAS_REMOVING", 5, NO_MATCHED, "MESSAGE_NOT_FOUND"),
        ("NO_MATCHED_MESSAGE", 5, NO_MATCHED, "MESSAGE_NOT_FOUND"),
        ("NO_MATCHED_LOGIC_QUEUE", 0, NO_NEW, "MESSAGE_NOT_FOUND"),
        ("NO_MATCHED_LOGIC_QUEUE", 1, ILLEGAL, "ILLEGAL_OFFSET"),
        ("NO_MATCHED_LOGIC_QUEUE", -1, ILLEGAL, "ILLEGAL_OFFSET"),
        ("NO_MESSAGE_IN_QUEUE", 0, NO_NEW, "MESSAGE_NOT_FOUND"),
        ("NO_MESSAGE_IN_QUEUE", 1, ILLEGAL, "ILLEGAL_OFFSET"),
        ("NO_MESSAGE_IN_QUEUE", -1, ILLEGAL, "ILLEGAL_OFFSET"),
        ("OFFSET_FOUND_NULL", 5, NO_NEW, "MESSAGE_NOT_FOUND"),
        ("OFFSET_OVERFLOW_ONE", 5, NO_NEW, "MESSAGE_NOT_FOUND"),
        ("OFFSET_OVERFLOW_BADLY", 5, ILLEGAL, "ILLEGAL_OFFSET"),
        ("OFFSET_TOO_SMALL", 5, ILLEGAL, "ILLEGAL_OFFSET"),
        ("OFFSET_RESET", 0, ILLEGAL, "ILLEGAL_OFFSET"),
    ],
)
def test_a_status_becomes_a_code_and_a_code_the_clients_status(
    status: str, offset: int, answer: tuple[int, str], v2_code: str
) -> None:
    response = find_response(PullStatus[status], offset)
    assert (response, CLIENT_STATUSES[response].pull_status) == answer
    assert CLIENT_STATUSES[response].v2_code == v2_code


def test_every_status_of_rocketmq_has_its_answer() -> None:
    assert {row.status for row in PULL_ANSWERS} == set(PullStatus) - {PullStatus.NOT_REACHED}
    for status in PullStatus:
        assert {find_response(status, offset) for offset in (-1, 0, 1)} <= set(PullResponse)


SLAVE = ReadRole(is_slave=True, slave_read_enable=True)
ALONE = ReadRole(is_slave=True, slave_read_enable=True, has_master=False)
CHECKING = ReadRole(is_slave=True, slave_read_enable=True, has_master=False, offset_check_in_slave=True)


@pytest.mark.parametrize(
    ("role", "from_slave", "status", "response", "which"),
    [
        (ReadRole(), False, "FOUND", 0, 0),
        (ReadRole(), True, "FOUND", 0, 0),
        (ReadRole(slave_read_enable=True), False, "FOUND", 0, 0),
        (ReadRole(slave_read_enable=True), True, "FOUND", 0, 1),
        (ReadRole(slave_read_enable=True, which_broker_when_consume_slowly=3), True, "OFFSET_TOO_SMALL", 21, 3),
        (ReadRole(slave_read_enable=True, broker_id=2), False, "FOUND", 0, 2),
        # A slave sends those who are not far behind back to the master.
        (SLAVE, False, "FOUND", 0, 0),
        (SLAVE, False, "OFFSET_OVERFLOW_ONE", 20, 0),
        (SLAVE, False, "OFFSET_TOO_SMALL", 20, 0),
        (SLAVE, True, "FOUND", 0, 1),
        (SLAVE, True, "OFFSET_OVERFLOW_ONE", 19, 1),
        # It corrects no offset unless it may.
        (SLAVE, True, "OFFSET_TOO_SMALL", 20, 0),
        (ALONE, False, "OFFSET_TOO_SMALL", 20, 0),
        (ALONE, False, "OFFSET_OVERFLOW_ONE", 19, 0),
        (CHECKING, False, "OFFSET_TOO_SMALL", 21, 0),
    ],
)
@pytest.mark.proves("Replicas")
def test_which_broker_the_client_pulls_from_next(
    role: ReadRole, from_slave: bool, status: str, response: int, which: int
) -> None:
    assert suggest(PullStatus[status], 5, role, from_slave=from_slave) == (response, which)


def test_a_slave_leaves_a_wrong_offset_as_it_is_unless_it_may_correct_it() -> None:
    assert [role.correct(9, 5) for role in (ReadRole(), SLAVE, CHECKING)] == [5, 9, 5]
