"""What is renewed when, and for how long (rules 5.12.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.core.popping import renewals as limits
from rmqpull_broker.core.popping.receipts import Receipt, TopicKind
from rmqpull_broker.core.popping.renewals import CHECK_INTERVAL_MS, Holder, Renewal, Renewals, Step, plan_step

ANN, BOB = Holder("ann", "readers"), Holder("bob", "readers")
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
POPPED_MS = 1_000_000


def receipt(offset: int = 0, pop_time_ms: int = POPPED_MS, invisible_ms: int = MINUTE) -> Receipt:
    return Receipt(offset, pop_time_ms, invisible_ms, 3, TopicKind.NORMAL, "broker-a", 0, offset)


def keep(renewals: Renewals, offset: int = 0, holder: Holder = ANN, pop_time_ms: int = POPPED_MS) -> Renewal:
    kept = renewals.keep(holder, f"id-{offset}", "orders", receipt(offset, pop_time_ms))
    assert kept is not None
    return kept


def due(renewals: Renewals, now_ms: int, limit: int = 1_000) -> list[str]:
    return [each.message_id for each in renewals.list_due(now_ms, limit)]


def run_checks(renewals: Renewals) -> list[tuple[int, int, bool]]:
    """Checks every 5 s until nothing is kept. Returns each step with its seconds since the pop."""
    steps, now_ms = [], POPPED_MS
    while len(renewals):
        now_ms += CHECK_INTERVAL_MS
        for each in renewals.list_due(now_ms, 10):
            step = plan_step(each, GroupConfig("readers"), now_ms)
            assert step is not None
            steps.append(((now_ms - POPPED_MS) // SECOND, step.invisible_ms // SECOND, step.is_last))
            renewals.renew(each, each.receipt._replace(pop_time_ms=now_ms, invisible_ms=step.invisible_ms))
            if step.is_last:
                renewals.forget(each)
    return steps


@pytest.mark.parametrize(("reconsume_times", "last_s"), [(0, 10), (1, 30), (2, 60), (15, 7_200), (40, 7_200)])
def test_a_message_is_renewed_for_longer_and_longer_and_is_redelivered_after_three_hours(
    reconsume_times: int, last_s: int
) -> None:
    renewals = Renewals()
    renewals.keep(ANN, "id-0", "orders", receipt(), reconsume_times)
    assert run_checks(renewals) == [
        (50, 60, False),
        (100, 180, False),
        (270, 300, False),
        (560, 600, False),
        (1_150, 1_800, False),
        (2_940, 3_600, False),
        (6_530, 3_600, False),
        (10_120, 3_600, False),
        (13_710, last_s, True),
    ]
    assert len(renewals) == 0


@pytest.mark.parametrize(
    ("now_ms", "failures", "step"),
    [
        (POPPED_MS + 50 * SECOND, 0, Step(MINUTE, is_last=False)),
        (POPPED_MS + 50 * SECOND, 2, Step(MINUTE, is_last=False)),
        (POPPED_MS + 50 * SECOND, 3, None),
        (POPPED_MS + MINUTE - 1, 0, Step(MINUTE, is_last=False)),
        (POPPED_MS + MINUTE, 0, None),  # its time is over: another consumer may have it
    ],
)
def test_a_receipt_is_forgotten_after_three_failures_or_when_its_time_is_over(
    now_ms: int, failures: int, step: Step | None
) -> None:
    renewal = Renewal(ANN, "id-0", "orders", receipt(), 0, POPPED_MS, POPPED_MS, POPPED_MS + MINUTE, failures=failures)
    assert plan_step(renewal, GroupConfig("readers"), now_ms) == step


def test_a_receipt_is_due_when_ten_seconds_are_left_and_once() -> None:
    renewals = Renewals()
    keep(renewals)
    assert due(renewals, POPPED_MS + 50 * SECOND - 1) == []
    assert due(renewals, POPPED_MS + 50 * SECOND) == ["id-0"]
    assert due(renewals, POPPED_MS + HOUR) == []


def test_what_is_due_comes_in_parts_the_earliest_first() -> None:
    renewals = Renewals()
    for offset, pop_time_ms in ((0, POPPED_MS + 2), (1, POPPED_MS), (2, POPPED_MS + 1)):
        keep(renewals, offset, pop_time_ms=pop_time_ms)
    assert due(renewals, POPPED_MS + MINUTE, limit=2) == ["id-1", "id-2"]
    assert due(renewals, POPPED_MS + MINUTE, limit=2) == ["id-0"]


def test_a_try_that_failed_is_due_at_the_next_check_and_a_renewal_clears_the_failures() -> None:
    renewals = Renewals()
    renewal = keep(renewals)
    now_ms = POPPED_MS + 50 * SECOND
    assert due(renewals, now_ms) == ["id-0"]
    renewals.fail(renewal, now_ms)
    assert due(renewals, now_ms) == []
    assert due(renewals, now_ms + CHECK_INTERVAL_MS) == ["id-0"]
    assert renewal.failures == 1
    renewals.renew(renewal, receipt(pop_time_ms=POPPED_MS + 7))
    assert (renewal.failures, renewal.count, renewal.receipt.pop_time_ms) == (0, 1, POPPED_MS + 7)


@pytest.mark.parametrize("given_ms", [POPPED_MS, POPPED_MS + 50 * SECOND])
def test_any_receipt_of_a_message_takes_the_newest_one(given_ms: int) -> None:
    renewals = Renewals()
    renewal = keep(renewals)
    newest = receipt(pop_time_ms=POPPED_MS + 50 * SECOND)
    renewals.renew(renewal, newest)
    assert renewals.take(ANN, "id-0", receipt(pop_time_ms=given_ms)) is renewal
    assert (renewal.receipt, renewal.is_kept, len(renewals)) == (newest, False, 0)
    assert renewals.take(ANN, "id-0", receipt()) is None
    assert due(renewals, POPPED_MS + HOUR) == []


@pytest.mark.parametrize(
    ("holder", "message_id", "offset"), [(BOB, "id-0", 0), (ANN, "id-1", 0), (ANN, "id-0", 1), (ANN, "", 0)]
)
def test_others_take_nothing(holder: Holder, message_id: str, offset: int) -> None:
    renewals = Renewals()
    keep(renewals)
    assert renewals.take(holder, message_id, receipt(offset)) is None
    assert len(renewals) == 1


def test_a_message_that_is_delivered_again_is_kept_once() -> None:
    renewals = Renewals()
    older = keep(renewals)
    newer = keep(renewals, pop_time_ms=POPPED_MS + MINUTE)
    assert (older.is_kept, newer.popped_ms, len(renewals)) == (False, POPPED_MS + MINUTE, 1)
    assert renewals.take(ANN, "id-0", receipt()) is newer


def test_a_delivery_that_did_not_arrive_leaves_a_newer_one() -> None:
    renewals = Renewals()
    newer = keep(renewals, pop_time_ms=POPPED_MS + MINUTE)
    renewals.drop(ANN, "id-0", receipt())
    assert newer.is_kept
    renewals.drop(ANN, "id-0", newer.receipt)
    assert (newer.is_kept, len(renewals)) == (False, 0)


def test_a_renewal_that_ends_after_the_acknowledgement_only_tells_its_receipt() -> None:
    renewals = Renewals()
    renewal = keep(renewals)
    due(renewals, POPPED_MS + MINUTE)
    renewals.take(ANN, "id-0", receipt())
    renewals.renew(renewal, receipt(pop_time_ms=POPPED_MS + 7))
    renewals.fail(renewal, POPPED_MS)
    assert renewal.receipt.pop_time_ms == POPPED_MS + 7
    assert due(renewals, POPPED_MS + HOUR) == []


def test_a_client_that_leaves_takes_all_of_its_messages_along() -> None:
    renewals = Renewals()
    for offset, holder in enumerate((ANN, BOB, ANN)):
        keep(renewals, offset, holder)
    left = renewals.take_all(lambda holder: holder == ANN)
    assert [each.message_id for each in left] == ["id-0", "id-2"]
    assert renewals.take(BOB, "id-1", receipt(1)) is not None
    assert len(renewals) == 0


def test_above_the_limit_nothing_more_is_kept_but_what_takes_an_older_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RENEWALS_MAX", 2)
    renewals = Renewals()
    keep(renewals, 0)
    keep(renewals, 1)
    assert renewals.keep(ANN, "id-2", "orders", receipt(2)) is None
    keep(renewals, 1)
    renewals.take(ANN, "id-0", receipt(0))
    keep(renewals, 2)


@given(st.lists(st.tuples(st.sampled_from(["keep", "take", "due", "release"]), st.integers(0, 9)), max_size=300))
def test_whatever_happens_what_is_kept_is_found_once(calls: list[tuple[str, int]]) -> None:
    renewals, model, now_ms = Renewals(), dict[int, int](), POPPED_MS
    for call, offset in calls:
        holder = Holder(f"client-{offset % 3}", "readers")
        if call == "keep":
            keep(renewals, offset, holder, now_ms)
            model[offset] = now_ms
        elif call == "take":
            assert (renewals.take(holder, f"id-{offset}", receipt(offset)) is not None) == (offset in model)
            model.pop(offset, None)
        elif call == "due":
            now_ms += MINUTE
            found = renewals.list_due(now_ms, 1_000)
            assert sorted(each.receipt.queue_offset for each in found) == sorted(
                at for at, popped_ms in model.items() if popped_ms + 50 * SECOND <= now_ms
            )
            for each in found:
                renewals.renew(each, receipt(each.receipt.queue_offset, now_ms))
                model[each.receipt.queue_offset] = now_ms
        else:
            left = renewals.take_all({holder}.__contains__)
            assert {each.receipt.queue_offset for each in left} == {at for at in model if at % 3 == offset % 3}
            model = {at: popped_ms for at, popped_ms in model.items() if at % 3 != offset % 3}
        assert len(renewals) == len(model)
