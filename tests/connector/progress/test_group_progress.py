"""The group's offsets: they follow the query, never stop it, and hold it up for a bounded time."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from pyspark_rmqpull.clock import Clock
from pyspark_rmqpull.planning.offsets import QueueOffsets
from pyspark_rmqpull.progress.group_progress import COMMIT_AGAIN_MS, COMMIT_TIMEOUT_MS, GroupProgress
from rmqpull_client.errors import BrokerUnavailable, OptionError, RequestRefused
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.grpc.channel import Unserved
from rmqpull_proto.rpc import MESSAGING

QUEUE = MessageQueue("orders", "a", 0)
AT_5, AT_7 = QueueOffsets({QUEUE: 5}), QueueOffsets({QUEUE: 7})
REQUEST_TIMEOUT_MS = 10_000
REFUSAL = RequestRefused("INTERNAL_SERVER_ERROR", "no")


class FakeStore(Clock):
    """Takes commits, or fails as told after ``takes_ms`` of the time that it keeps."""

    def __init__(self) -> None:
        self.passed_ms = 100_000
        self.takes_ms = 0
        self.failures: list[Exception] = []
        self.tries: list[int] = []
        self.commits: list[dict[MessageQueue, int]] = []
        self.offsets: dict[MessageQueue, int] = {}
        self.pauses_ms: list[int] = []

    def commit(self, offsets: Mapping[MessageQueue, int], timeout_ms: int) -> dict[MessageQueue, int]:
        self.tries.append(timeout_ms)
        self.passed_ms += self.takes_ms
        if self.failures:
            raise self.failures.pop(0)
        self.commits.append(dict(offsets))
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


def test_each_position_is_committed_once(progress: GroupProgress, store: FakeStore) -> None:
    for position in (AT_5, AT_5, QueueOffsets(AT_5.offsets, starts={QUEUE: 1}), AT_7, AT_7):
        progress.commit(position)
    assert store.commits == [{QUEUE: 5}, {QUEUE: 7}]


def test_the_offset_before_the_first_batch_is_not_committed(progress: GroupProgress, store: FakeStore) -> None:
    progress.commit(QueueOffsets())
    assert store.tries == []


def test_an_idle_query_commits_again_after_a_while_for_a_reset_may_have_moved_its_group(
    progress: GroupProgress, store: FakeStore
) -> None:
    for _ in range(4):
        progress.commit(AT_5)
        store.passed_ms += COMMIT_AGAIN_MS // 2
    assert store.commits == [{QUEUE: 5}, {QUEUE: 5}]


def test_without_a_store_nothing_happens() -> None:
    GroupProgress(None, None, REQUEST_TIMEOUT_MS, Clock(), "etl@7@rmqpull").commit(AT_5, is_last=True)


@pytest.mark.parametrize(
    "failure",
    [
        BrokerUnavailable("nobody there"),
        REFUSAL,
        Unserved("127.0.0.1:8081", MESSAGING.methods["UpdateOffset"]),
        OptionError("The group's offsets cannot be written."),
    ],
)
def test_a_failure_is_logged_once_and_tried_again_with_the_next_planning(
    progress: GroupProgress, store: FakeStore, caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    store.failures = [failure, failure, failure]
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            progress.commit(AT_5)
    assert caplog.messages == [f"Group billing keeps its old offsets until a later commit succeeds: {failure}"]
    assert store.commits == [{QUEUE: 5}]


def test_a_failure_after_a_success_is_told_again(
    progress: GroupProgress, store: FakeStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.failures = [REFUSAL]
    progress.commit(AT_5)
    progress.commit(AT_5)
    store.failures = [REFUSAL]
    progress.commit(AT_7)
    assert len(caplog.messages) == 2


def test_a_commit_holds_up_planning_for_two_seconds_in_ten_at_most(progress: GroupProgress, store: FakeStore) -> None:
    store.takes_ms = COMMIT_TIMEOUT_MS
    store.failures = [BrokerUnavailable("nobody there")] * 99
    until_ms = store.passed_ms + 100_000
    while store.passed_ms < until_ms:
        progress.commit(AT_5)
        store.passed_ms += 500
    assert set(store.tries) == {COMMIT_TIMEOUT_MS}
    assert len(store.tries) == 10


def test_a_shorter_request_timeout_holds_for_commits_too(store: FakeStore) -> None:
    GroupProgress("billing", store, 500, store, "etl@7@rmqpull").commit(AT_5)
    assert store.tries == [500]


def test_the_last_commit_takes_the_time_of_a_request_and_does_not_rest(
    progress: GroupProgress, store: FakeStore
) -> None:
    store.takes_ms = 2_000
    store.failures = [BrokerUnavailable("nobody there")]
    progress.commit(AT_5)
    progress.commit(AT_5)
    progress.commit(AT_5, is_last=True)
    assert store.tries == [COMMIT_TIMEOUT_MS, REQUEST_TIMEOUT_MS]
    assert store.commits == [{QUEUE: 5}]


def test_the_last_commit_is_tried_three_times_when_it_is_refused(progress: GroupProgress, store: FakeStore) -> None:
    store.failures = [REFUSAL] * 2
    progress.commit(AT_5, is_last=True)
    assert store.commits == [{QUEUE: 5}]
    store.failures = [REFUSAL] * 3
    progress.commit(AT_7, is_last=True)
    assert len(store.tries) == 6
    assert store.commits == [{QUEUE: 5}]
    assert store.pauses_ms == [200, 400] * 2


def test_a_broker_that_is_away_is_not_waited_for_again_at_the_end(progress: GroupProgress, store: FakeStore) -> None:
    store.failures = [BrokerUnavailable("nobody there")]
    progress.commit(AT_5, is_last=True)
    assert store.tries == [REQUEST_TIMEOUT_MS]


def test_what_is_committed_already_is_not_committed_at_the_end(progress: GroupProgress, store: FakeStore) -> None:
    progress.commit(AT_5)
    progress.commit(AT_5, is_last=True)
    assert store.commits == [{QUEUE: 5}]


# --- others that commit to the same group -----------------------------------------------------------------------------


def at(offset: int) -> QueueOffsets:
    return QueueOffsets({QUEUE: offset})


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if message.startswith("Somebody else commits to group billing")]


def test_another_query_in_the_group_is_warned_of_once(
    progress: GroupProgress, store: FakeStore, caplog: pytest.LogCaptureFixture
) -> None:
    other = GroupProgress("billing", store, REQUEST_TIMEOUT_MS, store, "etl@8@rmqpull")
    for own, others in ((10, 3), (20, 5), (30, 7), (40, 9)):
        progress.commit(at(own))
        other.commit(at(others))
    mine, theirs = warnings(caplog)  # one of each query
    assert "etl@7@rmqpull): queue orders/a/0 was at offset 5, where this query had set 20." in mine
    assert "etl@8@rmqpull): queue orders/a/0 was at offset 30, where this query had set 5." in theirs
    assert "consumerGroup of its own" in mine


@pytest.mark.parametrize(
    "set_from_outside",
    [
        pytest.param([0, None, None], id="one reset"),
        pytest.param([0, 0, 0], id="a reset that stands until a pull is told"),
        pytest.param([0, None, 0], id="the same reset again"),
        pytest.param([None, None, None], id="nobody else"),
    ],
)
def test_a_reset_is_not_taken_for_another_query(
    progress: GroupProgress, store: FakeStore, caplog: pytest.LogCaptureFixture, set_from_outside: list[int | None]
) -> None:
    for number, offset in enumerate(set_from_outside, 1):
        progress.commit(at(10 * number))
        if offset is not None:
            store.offsets[QUEUE] = offset
    progress.commit(at(99))
    assert warnings(caplog) == []


def test_what_the_group_had_before_the_first_commit_may_be_the_query_s_own(
    store: FakeStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A query that is started again may find its group behind, or ahead when its checkpoint is older."""
    for found in (3, 99):
        store.offsets = {QUEUE: found}
        again = GroupProgress("billing", store, REQUEST_TIMEOUT_MS, store, "etl@7@rmqpull")
        again.commit(at(50))
        again.commit(at(60))
    assert warnings(caplog) == []


def test_a_commit_whose_answer_was_lost_is_the_query_s_own(
    progress: GroupProgress, store: FakeStore, caplog: pytest.LogCaptureFixture
) -> None:
    progress.commit(at(1))
    for position in (10, 30, 50):
        store.failures = [BrokerUnavailable("no answer")]
        progress.commit(at(position))
        store.offsets[QUEUE] = position  # but it was kept
        progress.commit(at(position + 10))
    assert warnings(caplog) == []


def test_offsets_that_are_the_new_ones_already_are_its_own(
    progress: GroupProgress, store: FakeStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Over the standard protocol the question travels beside the commit."""
    for position in (10, 20, 30, 40):
        store.offsets[QUEUE] = position
        progress.commit(at(position))
    assert warnings(caplog) == []
