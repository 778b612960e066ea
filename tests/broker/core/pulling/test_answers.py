"""The answer to each finding of a pull (rules 3.3, 1.7.1)."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.pulling.answers import (
    CLIENT_STATUSES,
    PULL_ANSWERS,
    PullStatus,
    find_response,
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
        assert {find_response(status, offset) for offset in (-1, 0, 1)} <= CLIENT_STATUSES.keys()
