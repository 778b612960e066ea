"""Retention deletes old messages, but stores delayed and half messages again at the end of their queues."""

from __future__ import annotations

from functools import partial

import pytest

from rmqpull_broker.core.model import Bounds, Message, MessageQueue, StoredMessage, TopicType
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.sending.delays import deliver_due, make_recall_handle, recall
from rmqpull_broker.core.sending.half_messages import Resolution, TransactionEnd, check_transactions, end_transaction
from rmqpull_broker.core.sending.stage_commands import CommittedStage, stage
from rmqpull_broker.core.state import retention
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import TopicDeleted
from rmqpull_broker.core.state.ports import Cut
from rmqpull_broker.core.state.retention import Trimmer, is_outdated, trim
from rmqpull_broker.core.state.stage_facts import TransactionId
from rmqpull_broker.core.state.waiting_messages import DelayedMessage, PendingMessage
from tests.harness.core import CoreHarness, commit_stages

HOUR_MS = 3_600_000
TIMER = MessageQueue("rmq_sys_wheel_timer", "broker-a", 0)
LEVEL_18 = MessageQueue("SCHEDULE_TOPIC_XXXX", "broker-a", 17)
HALF = MessageQueue("RMQ_SYS_TRANS_HALF_TOPIC", "broker-a", 0)
GIVEN_UP = HALF._replace(topic="TRANS_CHECK_MAX_TIME_TOPIC")


def due_in(ms: int, body: bytes = b"x", msg_id: str = "ID") -> Message:
    return Message(body, msg_id, tags="red", delivery_timestamp_ms=1_000 + ms, born_timestamp_ms=1_000)


HALF_MESSAGE = Message(
    b"paid", "ID", born_timestamp_ms=1_000, transactional=True, system_properties={"PGROUP": "payments"}
)


@pytest.fixture
def later(core: CoreHarness) -> CoreHarness:
    core.topic(topic_type=TopicType.DELAY, name="later")
    core.topic(topic_type=TopicType.TRANSACTION, name="payments")
    return core


def trim_all(core: CoreHarness, now_ms: int, *queues: MessageQueue) -> int:
    """Trims these queues to their ends, and returns the number of commands."""
    passing, steps = Trimmer(core.state, Cut(0, [(queue, core.state.bounds(queue).max_offset) for queue in queues])), 0
    while not passing.is_done:
        core.run(lambda draft: passing.step(draft, now_ms))
        steps += 1
    return steps


def deliver(core: CoreHarness, now_ms: int) -> list[StoredMessage]:
    core.run(lambda draft: deliver_due(draft, now_ms, "store"))
    return core.rows(core.queue(topic="later"))


def waiting(core: CoreHarness) -> list[PendingMessage | DelayedMessage]:
    return [*core.state.delayed, *core.state.halves]


@pytest.mark.parametrize(
    ("message", "queue"),
    [
        (due_in(2 * HOUR_MS), TIMER),
        (Message(b"x", "ID", tags="red", born_timestamp_ms=1_000, system_properties={"DELAY": "18"}), LEVEL_18),
    ],
)
def test_a_delayed_message_comes_at_its_time_although_its_segment_has_gone(
    later: CoreHarness, message: Message, queue: MessageQueue
) -> None:
    (sent,) = later.send(message, topic="later")
    (before,) = waiting(later)
    assert trim_all(later, 61 * 60_000, queue) == 1
    assert later.state.bounds(queue) == Bounds(1, 2)
    (after,) = waiting(later)
    assert after == before._replace(stored_at=before.stored_at._replace(queue_offset=1))
    (again,) = later.rows(queue)
    assert (again.message, again.store_timestamp_ms) == (sent.message, 61 * 60_000)
    assert deliver(later, after.due_ms - 1) == []
    (delivered,) = deliver(later, after.due_ms)
    assert (delivered.message.body, delivered.message.tags, delivered.message.msg_id) == (b"x", "red", "ID")
    assert len(deliver(later, 1 << 50)) == 1


def test_it_is_stored_again_as_often_as_it_takes(later: CoreHarness) -> None:
    later.send(due_in(24 * HOUR_MS), topic="later")
    for hour in range(1, 24):
        trim_all(later, hour * HOUR_MS, TIMER)
        assert later.state.bounds(TIMER) == Bounds(hour, hour + 1)
    assert len(deliver(later, 25 * HOUR_MS)) == 1


def test_only_what_waits_is_stored_again(later: CoreHarness) -> None:
    later.send(*(due_in(1_000 * n, b"%d" % n, f"ID{n}") for n in range(1, 6)), topic="later")
    deliver(later, 2_000)
    handle = make_recall_handle("later", TIMER, later.rows(TIMER)[3].message)
    assert handle is not None
    later.run(lambda draft: recall(draft, "later", handle, 2_500))
    trim_all(later, HOUR_MS, TIMER)
    assert [row.message.body for row in later.rows(TIMER)] == [b"3", b"5"]
    assert [row.message.body for row in deliver(later, HOUR_MS)] == [b"1", b"2", b"3", b"5"]


def test_a_message_that_was_stored_again_can_be_recalled(later: CoreHarness) -> None:
    (sent,) = later.send(due_in(2 * HOUR_MS), topic="later")
    trim_all(later, HOUR_MS, TIMER)
    handle = make_recall_handle("later", TIMER, sent.message)
    assert handle is not None
    assert later.run(lambda draft: recall(draft, "later", handle, HOUR_MS)) == "ID"
    assert deliver(later, 3 * HOUR_MS) == []


def test_a_half_message_can_be_ended_although_its_segment_has_gone(later: CoreHarness) -> None:
    later.state.properties = BrokerProperties(file_reserved_time=1, transaction_time_out=2 * HOUR_MS)
    later.send(HALF_MESSAGE, topic="payments")
    (before,) = waiting(later)
    trim_all(later, 61 * 60_000, HALF)
    assert waiting(later) == [before._replace(stored_at=before.stored_at._replace(queue_offset=1))]
    end = TransactionEnd("ID", "payments", Resolution.COMMIT)
    assert later.run(lambda draft: end_transaction(draft, end, 62 * 60_000, "store")) is not None
    assert [row.message.body for row in later.rows(later.queue(topic="payments"))] == [b"paid"]
    assert waiting(later) == []


def test_a_half_message_ends_by_its_checks_however_often_it_was_stored_again(later: CoreHarness) -> None:
    """Its time of the next check stays, and its number of checks: retention does not prolong its life."""
    later.state.properties = BrokerProperties(transaction_check_max=2, transaction_time_out=10_000)
    later.send(HALF_MESSAGE, topic="payments")
    checks = []
    for now_ms in range(12_000, 200_000, 5_000):
        trim_all(later, now_ms, HALF)
        checks += later.run(partial(check_transactions, now_ms=now_ms, store_host="store"))
    assert [check.stored.store_timestamp_ms for check in checks] == [12_000, 42_000]
    assert [row.message.system_properties["TRANSACTION_CHECK_TIMES"] for row in later.rows(GIVEN_UP)] == ["2"]
    assert waiting(later) == []


def test_a_half_message_older_than_the_reserved_time_is_given_up_at_its_check(later: CoreHarness) -> None:
    later.state.properties = BrokerProperties(file_reserved_time=1, transaction_time_out=2 * HOUR_MS)
    later.send(HALF_MESSAGE, topic="payments")
    trim_all(later, 61 * 60_000, HALF)
    assert later.run(lambda draft: check_transactions(draft, 2 * HOUR_MS + 1_000, "store")) == []
    assert [row.message.body for row in later.rows(GIVEN_UP)] == [b"paid"]


@pytest.mark.parametrize(("limit", "steps"), [(("PUT_AGAIN_MAX", 2), 3), (("PUT_AGAIN_BYTES_MAX", 1), 5)])
def test_many_messages_take_several_commands(
    later: CoreHarness, monkeypatch: pytest.MonkeyPatch, limit: tuple[str, int], steps: int
) -> None:
    monkeypatch.setattr(retention, *limit)
    later.send(*(due_in(HOUR_MS * n, b"%d" % n) for n in range(1, 6)), topic="later")
    assert trim_all(later, 2_000, TIMER, LEVEL_18) == steps
    assert [row.message.body for row in deliver(later, 9 * HOUR_MS)] == [b"1", b"2", b"3", b"4", b"5"]


def test_a_message_delivered_between_two_commands_is_not_stored_again(
    later: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "PUT_AGAIN_MAX", 1)
    later.send(due_in(5_000, b"1"), due_in(3_000, b"2"), due_in(1_000, b"3"), topic="later")
    passing = Trimmer(later.state, Cut(0, [(TIMER, 3)]))

    def step_before_and_after_a_delivery(draft: Draft) -> None:
        passing.step(draft, 1_500)
        draft.end_command()
        deliver_due(draft, 3_500, "store")
        draft.end_command()
        passing.step(draft, 3_500)

    later.run(step_before_and_after_a_delivery)
    later.run(lambda draft: passing.step(draft, 3_500))
    assert passing.is_done
    assert [row.message.body for row in later.rows(TIMER)] == [b"1"]
    assert [row.message.body for row in deliver(later, 9_000)] == [b"3", b"2", b"1"]


def test_store_times_never_fall(later: CoreHarness) -> None:
    later.send(due_in(HOUR_MS), topic="later")
    trim_all(later, 500, TIMER)
    assert [row.store_timestamp_ms for row in later.rows(TIMER)] == [1_000]


def test_a_cut_is_outdated_once_a_command_before_it_commits_a_stage_that_it_found_open(core: CoreHarness) -> None:
    """The rows are readable by then, and the cut would delete them."""
    core.topic()
    batch, checked = TransactionId("query", 1), core.check(core.batch([b"1"]))
    core.run(lambda draft: stage(draft, core.sender, batch, "a", 0, checked, core.now_ms))
    cut, draft = Cut(0, [], ["a"], "retentionBytes"), Draft(core.state)
    assert not is_outdated(draft, cut)
    commit_stages(draft, batch, [CommittedStage("a", 1)])
    draft.end_command()
    assert is_outdated(draft, cut)


def test_a_cut_drops_open_stages_and_names_the_limit(core: CoreHarness) -> None:
    core.topic()
    checked = core.check(core.batch([b"1"]))
    core.run(lambda draft: stage(draft, core.sender, TransactionId("query", 1), "a", 0, checked, core.now_ms))
    trimming = Trimmer(core.state, Cut(0, [], ["a", "gone"], "retentionBytes"))
    core.run(lambda draft: trimming.step(draft, core.now_ms))
    assert trimming.is_done
    assert not core.state.stages.all()
    assert core.state.stages.find_dropping_limit("a") == "retentionBytes"
    assert core.state.stages.find_dropping_limit("gone") is None


def test_a_queue_that_was_created_again_is_not_trimmed(core: CoreHarness) -> None:
    core.topic()
    core.send(Message(b"x", "ID"))
    core.run(lambda draft: trim(draft, [(core.queue(), 2)]))
    assert core.state.bounds(core.queue()) == Bounds(0, 1)


def test_a_queue_that_is_created_again_between_two_commands_is_not_trimmed(
    later: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "PUT_AGAIN_MAX", 1)
    orders = later.queue()
    later.topic()
    later.send(Message(b"old", "ID"))
    later.send(due_in(HOUR_MS), due_in(HOUR_MS), topic="later")
    passing = Trimmer(later.state, Cut(0, [(orders, 1), (TIMER, 2)]))
    later.run(lambda draft: passing.step(draft, 2_000))
    later.run(lambda draft: draft.add(TopicDeleted("orders")))
    later.topic()
    later.send(Message(b"new", "ID"))
    while not passing.is_done:
        later.run(lambda draft: passing.step(draft, 2_000))
    assert [row.message.body for row in later.rows(orders)] == [b"new"]
