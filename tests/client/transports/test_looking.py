"""A look requests as many messages at once as fit, if they are as large as those before."""

from __future__ import annotations

from rmqpull_client.transports.looking import FIRST_PULLS, LookLimit


def test_the_first_requests_are_few_and_the_next_ones_as_many_as_fit() -> None:
    limit = LookLimit(1_000, 100)
    assert limit.count_next() == FIRST_PULLS
    limit.add([10])
    assert limit.count_next() == 99
    limit.add([100])
    assert limit.count_next() == 8


def test_no_more_are_in_flight_than_allowed() -> None:
    limit = LookLimit(1_000, 5)
    limit.add([1])
    assert limit.count_next() == 5


def test_one_message_that_may_not_fit_is_still_requested() -> None:
    limit = LookLimit(1_000, 100)
    limit.add([600])
    assert limit.count_next() == 1
    limit.add([400])
    assert limit.count_next() == 0


def test_a_message_without_bytes_counts_as_one_byte() -> None:
    limit = LookLimit(1_000, 2_000)
    limit.add([0])
    assert limit.count_next() == 1_000
