"""The consumer offsets of a group follow the query, never end it, and delay it for a bounded time."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from pyspark_rmqpull.clock import Clock
from pyspark_rmqpull.progress.group_progress import REFRESH_INTERVAL_MS, TIMEOUT_MS, GroupProgress
from rmqpull_client.errors import BrokerUnavailable, OptionError, RequestRefused, Unserved
from rmqpull_client.model import MessageQueue

QUEUE = MessageQueue("orders", "a", 0)
AT_5, AT_7 = {QUEUE: 5}, {QUEUE: 7}
REQUEST_TIMEOUT_MS = 10_000
REFUSAL = RequestRefused("INTERNAL_SERVER_ERROR", "no")


class FakeStore(Clock):
    """Stores offsets, or fails with the next of ``failures``. Each request takes ``takes_ms`` of its own clock."""

    def __init__(self) -> None:
        self.passed_ms = 100_000
        self.takes_ms = 0
        self.failures: list[Exception] = []
        self.tries: list[int] = []
        self.offsets_set: list[dict[MessageQueue, int]] = []
        self.offsets: dict[MessageQueue, int] = {}
        self.pauses_ms: list[int] = []

    def set_offsets(self, offsets: Mapping[MessageQueue, int], timeout_ms: int) -> dict[MessageQueue, int]:
        self.tries.append(timeout_ms)
        self.passed_ms += self.takes_ms
        if self.failures:
            raise self.failures.pop(0)
        self.offsets_set.append(dict(offsets))
        before = dict(self.offsets)
        self.offsets.update(offsets)
        return before

    def now_ms(self) -> int:
        return self.passed_ms

    def sleep(self, duration_ms: int) -> None:
        self.pauses_ms.append(duration_ms)


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def progress(store: FakeStore) -> GroupProgress:
    return GroupProgress("billing", store, REQUEST_TIMEOUT_MS, store, "etl@7@rmqpull")


def test_offsets_are_set_once(progress: GroupProgress, store: FakeStore) -> None:
    for offsets in (AT_5, AT_5, AT_7, AT_7):
        progress.set_offsets(offsets)
    assert store.offsets_set == [{QUEUE: 5}, {QUEUE: 7}]


def test_nothing_is_set_before_the_first_batch(progress: GroupProgress, store: FakeStore) -> None:
    progress.set_offsets({})
    assert store.tries == []


def test_an_idle_query_sets_its_offsets_again_because_a_reset_may_have_changed_them(
    progress: GroupProgress, store: FakeStore
) -> None:
    for _ in range(4):
        progress.set_offsets(AT_5)
        store.passed_ms += REFRESH_INTERVAL_MS // 2
    assert store.offsets_set == [{QUEUE: 5}, {QUEUE: 5}]


def test_without_a_store_nothing_happens() -> None:
    GroupProgress(None, None, REQUEST_TIMEOUT_MS, Clock(), "etl@7@rmqpull").set_offsets(AT_5, is_last=True)


@pytest.mark.parametrize(
    "failure",
    [
        BrokerUnavailable("nobody there"),
        REFUSAL,
        Unserved("UNIMPLEMENTED", "The server does not serve UpdateOffset."),
        OptionError("The group's offsets cannot be written."),
    ],
)
def test_a_failure_is_logged_once_and_retried_with_the_next_planning(
    progress: GroupProgress, store: FakeStore, caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    store.failures = [failure, failure, failure]
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            progress.set_offsets(AT_5)
    assert caplog.messages == [f"Cannot set the consumer offsets of group billing; the query retries: {failure}"]
    assert store.offsets_set == [{QUEUE: 5}]


def test_a_failure_after_a_success_is_logged_again(
    progress: GroupProgress, store: FakeStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.failures = [REFUSAL]
    progress.set_offsets(AT_5)
    progress.set_offsets(AT_5)
    store.failures = [REFUSAL]
    progress.set_offsets(AT_7)
    assert len(caplog.messages) == 2


def test_failures_delay_planning_for_two_seconds_in_ten_at_most(progress: GroupProgress, store: FakeStore) -> None:
    store.takes_ms = TIMEOUT_MS
    store.failures = [BrokerUnavailable("nobody there")] * 99
    until_ms = store.passed_ms + 100_000
    while store.passed_ms < until_ms:
        progress.set_offsets(AT_5)
        store.passed_ms += 500
    assert set(store.tries) == {TIMEOUT_MS}
    assert len(store.tries) == 10


def test_a_shorter_request_timeout_applies_here_too(store: FakeStore) -> None:
    GroupProgress("billing", store, 500, store, "etl@7@rmqpull").set_offsets(AT_5)
    assert store.tries == [500]


def test_the_last_attempt_takes_the_time_of_a_request_and_is_not_delayed(
    progress: GroupProgress, store: FakeStore
) -> None:
    store.takes_ms = 2_000
    store.failures = [BrokerUnavailable("nobody there")]
    progress.set_offsets(AT_5)
    progress.set_offsets(AT_5)
    progress.set_offsets(AT_5, is_last=True)
    assert store.tries == [TIMEOUT_MS, REQUEST_TIMEOUT_MS]
    assert store.offsets_set == [{QUEUE: 5}]


def test_the_last_attempt_is_made_three_times_when_the_broker_refuses(
    progress: GroupProgress, store: FakeStore
) -> None:
    store.failures = [REFUSAL] * 2
    progress.set_offsets(AT_5, is_last=True)
    assert store.offsets_set == [{QUEUE: 5}]
    store.failures = [REFUSAL] * 3
    progress.set_offsets(AT_7, is_last=True)
    assert len(store.tries) == 6
    assert store.offsets_set == [{QUEUE: 5}]
    assert store.pauses_ms == [200, 400] * 2


def test_the_last_attempt_is_made_once_when_the_broker_is_away(progress: GroupProgress, store: FakeStore) -> None:
    store.failures = [BrokerUnavailable("nobody there")]
    progress.set_offsets(AT_5, is_last=True)
    assert store.tries == [REQUEST_TIMEOUT_MS]


def test_offsets_that_are_set_already_are_not_set_again_at_the_end(progress: GroupProgress, store: FakeStore) -> None:
    progress.set_offsets(AT_5)
    progress.set_offsets(AT_5, is_last=True)
    assert store.offsets_set == [{QUEUE: 5}]


# --- other writers of the same group ----------------------------------------------------------------------------------


def at(offset: int) -> dict[MessageQueue, int]:
    return {QUEUE: offset}


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        message
        for message in caplog.messages
        if message.startswith("Another query or consumer also sets the offsets of group billing")
    ]


def test_a_query_warns_once_of_another_one_in_its_group(
    progress: GroupProgress, store: FakeStore, caplog: pytest.LogCaptureFixture
) -> None:
    other = GroupProgress("billing", store, REQUEST_TIMEOUT_MS, store, "etl@8@rmqpull")
    for own, others in ((10, 3), (20, 5), (30, 7), (40, 9)):
        progress.set_offsets(at(own))
        other.set_offsets(at(others))
    mine, theirs = warnings(caplog)  # one of each query
    assert "queue orders/a/0 was at offset 5, and this query (client id etl@7@rmqpull) had set 20." in mine
    assert "queue orders/a/0 was at offset 30, and this query (client id etl@8@rmqpull) had set 5." in theirs
    assert "consumerGroup of its own" in mine


@pytest.mark.parametrize(
    "set_from_outside",
    [
        pytest.param([0, None, None], id="one reset"),
        pytest.param([0, 0, 0], id="a reset that stays until a pull learns of it"),
        pytest.param([0, None, 0], id="the same reset again"),
        pytest.param([None, None, None], id="nobody else"),
    ],
)
def test_a_reset_is_not_taken_for_another_query(
    progress: GroupProgress, store: FakeStore, caplog: pytest.LogCaptureFixture, set_from_outside: list[int | None]
) -> None:
    for number, offset in enumerate(set_from_outside, 1):
        progress.set_offsets(at(10 * number))
        if offset is not None:
            store.offsets[QUEUE] = offset
    progress.set_offsets(at(99))
    assert warnings(caplog) == []


def test_the_offsets_that_a_query_finds_at_first_may_be_its_own(
    store: FakeStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A restarted query may find its group behind it, or ahead of it when its checkpoint is older."""
    for found in (3, 99):
        store.offsets = {QUEUE: found}
        again = GroupProgress("billing", store, REQUEST_TIMEOUT_MS, store, "etl@7@rmqpull")
        again.set_offsets(at(50))
        again.set_offsets(at(60))
    assert warnings(caplog) == []


def test_offsets_whose_response_was_lost_are_the_query_s_own(
    progress: GroupProgress, store: FakeStore, caplog: pytest.LogCaptureFixture
) -> None:
    progress.set_offsets(at(1))
    for offset in (10, 30, 50):
        store.failures = [BrokerUnavailable("no answer")]
        progress.set_offsets(at(offset))
        store.offsets[QUEUE] = offset  # but the broker has stored it
        progress.set_offsets(at(offset + 10))
    assert warnings(caplog) == []


def test_the_new_offsets_are_the_query_s_own_when_the_broker_has_them_already(
    progress: GroupProgress, store: FakeStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Over the standard protocol one request reads the old offsets while another sets the new ones."""
    for offset in (10, 20, 30, 40):
        store.offsets[QUEUE] = offset
        progress.set_offsets(at(offset))
    assert warnings(caplog) == []
