"""Queue locks as stories and as properties (rules 3.8)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.clients import queue_locks
from rmqpull_broker.core.clients.queue_locks import QueueLock, QueueLocks
from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.shares import find_holder
from rmqpull_broker.core.steps import STEP_ENTRIES
from tests.harness.steps import count_steps, run_steps

FIRST, SECOND, THIRD = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(3))


def lock(locks: QueueLocks, *arguments: Any) -> frozenset[MessageQueue]:
    return frozenset(run_steps(locks.lock_in_steps(*arguments)))


def test_a_free_queue_is_locked_and_a_held_one_is_left_out() -> None:
    locks = QueueLocks()
    assert lock(locks, "readers", "ann", [FIRST, SECOND], 0) == {FIRST, SECOND}
    assert lock(locks, "readers", "bob", [SECOND, THIRD], 1) == {THIRD}
    assert lock(locks, "readers", "bob", [FIRST], 2) == frozenset()


def test_groups_lock_apart_from_each_other_and_so_do_brokers() -> None:
    locks = QueueLocks()
    elsewhere = FIRST._replace(broker_name="broker-b")
    assert lock(locks, "readers", "ann", [FIRST], 0) == {FIRST}
    assert lock(locks, "others", "bob", [FIRST], 0) == {FIRST}
    assert lock(locks, "readers", "bob", [elsewhere], 0) == {elsewhere}


@pytest.mark.parametrize(("now_ms", "is_free"), [(0, False), (59_999, False), (60_000, False), (60_001, True)])
def test_a_lock_that_is_not_renewed_lives_for_a_minute(now_ms: int, is_free: bool) -> None:
    locks = QueueLocks()
    lock(locks, "readers", "ann", [FIRST], 0)
    assert locks.has_locks("readers", now_ms) is not is_free
    assert (lock(locks, "readers", "bob", [FIRST], now_ms) == {FIRST}) is is_free


def test_locking_again_renews() -> None:
    locks = QueueLocks()
    lock(locks, "readers", "ann", [FIRST], 0)
    assert lock(locks, "readers", "ann", [FIRST], 50_000) == {FIRST}
    assert lock(locks, "readers", "bob", [FIRST], 110_000) == frozenset()
    assert locks.list_locks("readers", 110_000) == {FIRST: QueueLock("ann", 50_000)}


def test_an_expired_lock_is_its_owners_again_unless_somebody_was_faster() -> None:
    locks = QueueLocks()
    lock(locks, "readers", "ann", [FIRST, SECOND], 0)
    assert lock(locks, "readers", "bob", [FIRST], 60_001) == {FIRST}
    assert lock(locks, "readers", "ann", [FIRST, SECOND], 60_002) == {SECOND}


def test_only_the_owner_unlocks() -> None:
    locks = QueueLocks()
    lock(locks, "readers", "ann", [FIRST, SECOND], 0)
    locks.unlock_batch("readers", "bob", [FIRST, SECOND])
    locks.unlock_batch("readers", "ann", [SECOND, THIRD])
    assert locks.list_locks("readers", 1) == {FIRST: QueueLock("ann", 0)}


def test_unlocking_a_free_queue_is_no_error() -> None:
    locks = QueueLocks()
    locks.unlock_batch("readers", "ann", [FIRST])
    assert locks.groups() == []


def test_a_group_consumes_in_order_while_it_holds_any_lock() -> None:
    locks = QueueLocks()
    assert not locks.has_locks("readers", 0)
    lock(locks, "readers", "ann", [FIRST], 0)
    lock(locks, "readers", "bob", [SECOND], 30_000)
    assert locks.has_locks("readers", 90_000)
    assert not locks.has_locks("others", 0)
    locks.unlock_batch("readers", "bob", [SECOND])
    assert not locks.has_locks("readers", 90_000)


def test_locks_have_a_limit_that_expired_ones_do_not_count_against(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_locks, "LOCKS_MAX", 2)
    locks = QueueLocks()
    lock(locks, "readers", "ann", [FIRST], 0)
    lock(locks, "others", "ann", [FIRST], 30_000)
    with pytest.raises(TooManyRequests, match="1 queues cannot be locked: the locks in use are 2 of at most 3 in all"):
        lock(locks, "readers", "bob", [SECOND], 60_000)
    assert lock(locks, "others", "ann", [FIRST], 60_000) == {FIRST}
    assert lock(locks, "others", "bob", [SECOND], 60_001) == {SECOND}
    assert locks.groups() == ["others"]


def test_a_connection_with_all_locks_leaves_some_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_locks, "LOCKS_MAX", 16)
    locks, greedy, other = QueueLocks(), find_holder("10.0.0.1:5"), find_holder("10.0.0.2:5")
    queues = [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(17)]
    with pytest.raises(TooManyRequests):
        lock(locks, "readers", "ann", queues, 0, greedy)
    assert len(lock(locks, "readers", "ann", queues[:16], 0, greedy)) == 16
    assert len(lock(locks, "readers", "ann", queues[:16], 1, greedy)) == 16  # renewed
    with pytest.raises(TooManyRequests, match="16 by this connection and 16 from its address"):
        lock(locks, "readers", "ann", queues[16:], 1, greedy)
    assert lock(locks, "readers", "bob", queues[16:], 1, other) == {queues[16]}


def test_a_lock_counts_for_the_connection_that_renewed_it_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_locks, "LOCKS_MAX", 2)
    locks, before, after = QueueLocks(), find_holder("10.0.0.1:5"), find_holder("10.0.0.1:6")
    for at_ms, holder in enumerate((before, after)):
        lock(locks, "readers", "ann", [FIRST, SECOND], at_ms, holder)
    with pytest.raises(TooManyRequests, match="0 by this connection and 2 from its address"):
        lock(locks, "readers", "ann", [THIRD, MessageQueue("orders", "broker-a", 3)], 2, before)
    locks.unlock_batch("readers", "ann", [FIRST, SECOND, THIRD])
    assert locks.groups() == []


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["lock", "unlock"]),
        st.sampled_from(["ann", "bob", "eve"]),
        st.sets(st.sampled_from([FIRST, SECOND, THIRD])),
        st.integers(0, 70_000),
    ),
    max_size=20,
)


@given(STEPS)
def test_a_queue_never_has_two_holders(steps: list[tuple[str, str, set[MessageQueue], int]]) -> None:
    """Compares the locks with a simple model: the last client of each queue, and its time."""
    locks = QueueLocks()
    model: dict[MessageQueue, tuple[str, int]] = {}
    now_ms = 0
    for verb, client_id, queues, passed_ms in steps:
        now_ms += passed_ms
        mine = {queue for queue in queues if model.get(queue, (client_id, 0))[0] == client_id}
        stale = {queue for queue in queues if queue in model and now_ms - model[queue][1] > 60_000}
        if verb == "lock":
            assert lock(locks, "readers", client_id, queues, now_ms) == mine | stale
            model.update(dict.fromkeys(mine | stale, (client_id, now_ms)))
        else:
            locks.unlock_batch("readers", client_id, queues)
            model = {queue: holder for queue, holder in model.items() if queue not in mine}
        held = {queue: lock.client_id for queue, lock in locks.list_locks("readers", now_ms).items()}
        assert held == {queue: holder for queue, (holder, at_ms) in model.items() if now_ms - at_ms <= 60_000}


def test_many_queues_are_locked_and_unlocked_in_steps() -> None:
    locks, two = QueueLocks(), [FIRST._replace(queue_id=number) for number in range(2 * STEP_ENTRIES)]
    locked, steps = count_steps(locks.lock_in_steps("readers", "ann", two, 0))
    assert (sorted(locked), steps) == (sorted(two), 2 + 2)
    assert count_steps(locks.lock_in_steps("readers", "ann", two[:STEP_ENTRIES], 1)) == (two[:STEP_ENTRIES], 1 + 1)
    assert count_steps(locks.unlock_in_steps("readers", "ann", two)) == (None, 2)
    assert not locks.groups()


def test_what_another_client_locks_between_two_steps_stays_its_own() -> None:
    locks = QueueLocks()
    steps = locks.lock_in_steps("readers", "ann", [FIRST, SECOND], 0)
    next(steps)
    lock(locks, "readers", "bob", [SECOND], 0)
    assert run_steps(steps) == [FIRST]
