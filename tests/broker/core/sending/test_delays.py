"""A delayed message: where it waits, when it is delivered, and how it is recalled."""

from __future__ import annotations

import base64

import pytest

from rmqpull_broker.core.admin.topics import delete_topic
from rmqpull_broker.core.errors import (
    BrokerError,
    Forbidden,
    IllegalDeliveryTime,
    IllegalOperation,
    RequestFailed,
    TopicNotFound,
)
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.sending import delays
from rmqpull_broker.core.sending.delays import (
    DeliveryCounts,
    deliver_due,
    make_delayed_message,
    make_recall_handle,
    recall,
    round_to_timer_ms,
)
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import RowsStored
from tests.harness.core import CoreHarness

NOW = 10_000
SCHEDULE = MessageQueue("SCHEDULE_TOPIC_XXXX", "broker-a", 0)
TIMER = MessageQueue("rmq_sys_wheel_timer", "broker-a", 0)
DAY_MS = 86_400_000


def at(delivery_ms: int, msg_id: str = "ID") -> Message:
    return Message(b"x", msg_id, delivery_timestamp_ms=delivery_ms)


def of_level(level: str) -> Message:
    return Message(b"x", "ID", system_properties={"DELAY": level})


def with_timer(**own: str) -> Message:
    return Message(b"x", "ID", system_properties=own)


def store(core: CoreHarness, message: Message, now_ms: int = NOW) -> StoredMessage:
    def command(draft: Draft) -> StoredMessage:
        queue, waiting = make_delayed_message(draft, core.queue(), message, now_ms)
        stored = StoredMessage(waiting, draft.find_next_offset(queue), now_ms, "store")
        draft.add(RowsStored(queue, (stored,)))
        return stored

    return core.run(command)


def deliver(core: CoreHarness, now_ms: int) -> DeliveryCounts:
    return core.run(lambda draft: deliver_due(draft, now_ms, "store"))


def with_properties(core: CoreHarness, **values: object) -> CoreHarness:
    core.state.properties = BrokerProperties(**values)  # type: ignore[arg-type]
    return core


@pytest.mark.parametrize(
    ("message", "wait_queue", "due_ms"),
    [
        (of_level("1"), SCHEDULE, NOW + 1_000),
        (of_level("3"), SCHEDULE._replace(queue_id=2), NOW + 10_000),
        (of_level("18"), SCHEDULE._replace(queue_id=17), NOW + 7_200_000),
        (of_level("99"), SCHEDULE._replace(queue_id=17), NOW + 7_200_000),
        (of_level("+2"), SCHEDULE._replace(queue_id=1), NOW + 5_000),
        (with_timer(TIMER_DELAY_SEC="5"), TIMER, NOW + 4_000),
        (with_timer(TIMER_DELAY_MS="5001"), TIMER, NOW + 5_000),
        (with_timer(TIMER_DELIVER_MS="+12345"), TIMER, 12_000),
        (with_timer(TIMER_DELAY_SEC="5", TIMER_DELAY_MS="9000"), TIMER, NOW + 4_000),
        (with_timer(DELAY="0", TIMER_DELAY_SEC="5"), TIMER, NOW + 4_000),
        (at(12_345), TIMER, 12_000),
        (at(12_000), TIMER, 11_000),
        (at(NOW + 1), TIMER, NOW),
        (at(NOW + 3 * DAY_MS), TIMER, NOW + 3 * DAY_MS - 1_000),
    ],
)
def test_a_delayed_message_waits_in_a_system_queue(
    core: CoreHarness, message: Message, wait_queue: MessageQueue, due_ms: int
) -> None:
    core.topic()
    store(core, message)
    (waiting,) = core.state.delayed
    assert (waiting.stored_at.queue, waiting.due_ms) == (wait_queue, due_ms)
    assert core.rows(core.queue()) == []
    assert (
        core.rows(wait_queue)[0].message.system_properties.items() >= {"REAL_TOPIC": "orders", "REAL_QID": "0"}.items()
    )


@pytest.mark.parametrize(
    "message",
    [
        of_level("0"),
        of_level("-1"),
        at(NOW),
        at(-5),
        Message(b"x", "ID"),
        with_timer(TIMER_DELAY_SEC="0"),
        with_timer(TIMER_DELAY_SEC="-5"),
        with_timer(TIMER_DELAY_SEC="9223372036854775807"),
        with_timer(TIMER_DELIVER_MS="-9000000000000000000"),
        with_timer(TIMER_OUT_MS="5", TIMER_DELIVER_MS=str(NOW + 5_000)),
    ],
)
def test_others_are_stored_at_once(core: CoreHarness, message: Message) -> None:
    core.topic()
    store(core, message)
    assert [row.message for row in core.rows(core.queue())] == [message]


def test_a_level_wins_over_a_time_which_is_not_kept(core: CoreHarness) -> None:
    core.topic()
    own = {"DELAY": "1", "TIMER_DELAY_SEC": "5"}
    sent = store(core, Message(b"x", "ID", delivery_timestamp_ms=NOW - 1, system_properties=own))
    assert [waiting.due_ms for waiting in core.state.delayed] == [NOW + 1_000]
    assert sent.message.delivery_timestamp_ms is None
    assert "TIMER_DELAY_SEC" not in sent.message.system_properties


def test_a_level_above_the_last_one_becomes_the_last_one(core: CoreHarness) -> None:
    core.topic()
    assert store(core, of_level("99")).message.system_properties["DELAY"] == "18"


@pytest.mark.parametrize("level", ["late", "", " 2", "9" * 20])
def test_a_level_that_is_no_number_of_32_bits_is_refused(core: CoreHarness, level: str) -> None:
    core.topic()
    with pytest.raises(RequestFailed, match="is not a number"):
        store(core, of_level(level))


@pytest.mark.parametrize(
    "own",
    [
        {"TIMER_DELIVER_MS": "soon"},
        {"TIMER_DELAY_SEC": "soon", "TIMER_DELIVER_MS": "5"},
        {"TIMER_DELIVER_MS": "9223372036854775807"},
        {"TIMER_DELIVER_MS": "9223372036854775808"},
        {"TIMER_DELIVER_MS": "5", "TIMER_DEL_UNIQKEY": "orders_ID"},
    ],
)
def test_a_time_that_is_no_number_or_too_far_is_refused(core: CoreHarness, own: dict[str, str]) -> None:
    core.topic()
    with pytest.raises(IllegalDeliveryTime, match="timer message illegal"):
        store(core, with_timer(**own))


def test_a_time_beyond_three_days_is_refused(core: CoreHarness) -> None:
    core.topic()
    with pytest.raises(IllegalDeliveryTime, match="should not be bigger than the max delay 259200000ms"):
        store(core, at(NOW + 3 * DAY_MS + 1))


def test_without_the_timer_wheel_a_time_is_refused(core: CoreHarness) -> None:
    with_properties(core, timer_wheel_enable=False).topic()
    with pytest.raises(BrokerError, match="timerWheelEnable is false"):
        store(core, at(NOW + 1))


@pytest.mark.parametrize(("delivery_ms", "out_ms"), [(1, 0), (999, 0), (1_000, 0), (1_001, 1_000), (2_000, 1_000)])
def test_a_time_is_floored_to_the_whole_second_before_it(delivery_ms: int, out_ms: int) -> None:
    assert round_to_timer_ms(delivery_ms) == out_ms


def test_a_message_comes_when_its_time_has_come_and_not_before(core: CoreHarness) -> None:
    core.topic()
    sent = store(core, of_level("1"))
    assert deliver(core, NOW + 999) == (0, 0)
    assert deliver(core, NOW + 1_000) == (1, 0)
    (row,) = core.rows(core.queue())
    assert (row.message.body, row.message.msg_id, row.store_timestamp_ms) == (b"x", sent.message.msg_id, NOW + 1_000)
    assert row.message.system_properties == {"DELAY": "1", "REAL_TOPIC": "orders", "REAL_QID": "0"}
    assert deliver(core, NOW + 9_999) == (0, 0)
    assert len(core.state.delayed) == 0


def test_a_message_of_the_timer_says_when_it_came_and_went(core: CoreHarness) -> None:
    core.topic()
    store(core, with_timer(TIMER_DELAY_SEC="5"), NOW + 123)
    deliver(core, NOW + 9_999)
    assert core.rows(core.queue())[0].message.system_properties == {
        "TIMER_DELAY_SEC": "5",
        "REAL_TOPIC": "orders",
        "REAL_QID": "0",
        "TIMER_OUT_MS": str(NOW + 5_000),
        "TIMER_ENQUEUE_MS": str(NOW),
        "TIMER_DEQUEUE_MS": str(NOW + 9_999),
    }


def test_messages_come_in_the_order_of_their_times(core: CoreHarness) -> None:
    core.topic()
    for number, delay_ms in enumerate((9_000, 3_000, 6_000, 3_000)):
        store(core, at(NOW + delay_ms, str(number)))
    deliver(core, NOW + 20_000)
    assert [row.message.msg_id for row in core.rows(core.queue())] == ["1", "3", "2", "0"]
    assert [row.queue_offset for row in core.rows(core.queue())] == [0, 1, 2, 3]


def test_one_command_delivers_so_many_and_leaves_the_rest(core: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqpull_broker.core.sending.delays.DELIVERIES_MAX", 2)
    core.topic()
    for number in range(3):
        store(core, at(NOW + 1, str(number)))
    assert [deliver(core, NOW + 1).messages for _ in range(3)] == [2, 1, 0]


def test_two_deliveries_in_one_draft_deliver_once(core: CoreHarness) -> None:
    core.topic()
    store(core, of_level("1"))
    draft = Draft(core.state)
    delivered = []
    for _ in range(2):
        delivered.append(deliver_due(draft, NOW + 5_000, "store").messages)
        draft.end_command()
    assert delivered == [1, 0]


@pytest.mark.proves("A delayed message whose topic was deleted")
def test_messages_of_a_topic_that_is_gone_are_dropped(core: CoreHarness) -> None:
    core.topic()
    store(core, of_level("1"))
    core.run(lambda draft: delete_topic(draft, "orders"))
    assert deliver(core, NOW + 1_000) == (0, 1)
    assert len(core.state.delayed) == 0


# --- recall ----------------------------------------------------------------------------------------------------------


def handle_of(*words: object) -> str:
    return base64.urlsafe_b64encode(" ".join(map(str, words)).encode()).decode()


def test_a_recalled_message_never_comes(core: CoreHarness) -> None:
    core.topic()
    waiting = store(core, at(NOW + 5_000, "ID1")).message
    store(core, at(NOW + 5_000, "ID2"))
    handle = make_recall_handle("orders", TIMER, waiting)
    assert handle == handle_of("v1", "orders", "broker-a", NOW + 4_001, "ID1")
    assert core.run(lambda draft: recall(draft, "orders", handle, NOW)) == "ID1"
    deliver(core, NOW + 5_000)
    assert [row.message.msg_id for row in core.rows(core.queue())] == ["ID2"]


def test_a_level_has_no_handle(core: CoreHarness) -> None:
    core.topic()
    assert make_recall_handle("orders", SCHEDULE, store(core, of_level("1")).message) is None


def test_what_follows_the_id_in_a_handle_is_ignored(core: CoreHarness) -> None:
    core.topic()
    handle = handle_of("v1", "orders", "broker-a", NOW + 1, "ID", "more")
    assert core.run(lambda draft: recall(draft, "orders", handle, NOW)) == "ID"


def test_a_broker_may_recall_its_own_messages_alone(core: CoreHarness) -> None:
    core.topic()
    handle = handle_of("v1", "orders", "broker-a", NOW + 1, "ID")
    with pytest.raises(IllegalOperation, match="broker service not available"):
        core.run(lambda draft: recall(draft, "orders", handle, NOW, "broker-b"))


def test_recalling_what_is_not_there_is_no_error(core: CoreHarness) -> None:
    core.topic()
    handle = handle_of("v1", "orders", "broker-a", NOW + 1, "unknown")
    assert core.run(lambda draft: recall(draft, "orders", handle, NOW)) == "unknown"


@pytest.mark.parametrize(
    ("topic", "handle", "error", "sentence"),
    [
        ("unknown", "", TopicNotFound, "not exist"),
        ("orders", "?", IllegalOperation, "recall handle is invalid"),
        ("orders", handle_of("v2", "orders", "broker-a", NOW + 1, "ID"), IllegalOperation, "handle is invalid"),
        ("orders", handle_of("v1", "orders", "broker-a", "soon", "ID"), IllegalOperation, "timestamp invalid"),
        ("orders", handle_of("v1", "orders", "broker-a", NOW + 1), IllegalOperation, "handle is invalid"),
        ("orders", handle_of("v1", "others", "broker-a", NOW + 1, "ID"), IllegalOperation, "topic not match"),
        ("orders", handle_of("v1", "orders", "broker-z", NOW + 1, "ID"), IllegalOperation, "service not available"),
        ("orders", handle_of("v1", "orders", "broker-a", NOW, "ID"), IllegalOperation, "timestamp invalid"),
        (
            "orders",
            handle_of("v1", "orders", "broker-a", NOW + 3 * DAY_MS, "ID"),
            IllegalOperation,
            "timestamp invalid",
        ),
    ],
)
def test_a_recall_is_refused(
    core: CoreHarness, topic: str, handle: str, error: type[BrokerError], sentence: str
) -> None:
    core.topic()
    with pytest.raises(error, match=sentence):
        core.run(lambda draft: recall(draft, topic, handle, NOW))


def test_recall_can_be_switched_off(core: CoreHarness) -> None:
    with_properties(core, recall_message_enable=False)
    with pytest.raises(Forbidden, match="recall failed, operation is forbidden"):
        core.run(lambda draft: recall(draft, "orders", "", NOW))


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "waiting", "delay_ms", "code", "v2_code"),
    [
        ({}, 2, 1_000, 1, "INTERNAL_SERVER_ERROR"),  # WHEEL_TIMER_FLOW_CONTROL
        ({"timer_wheel_enable": False}, 0, 1_000, 1, "INTERNAL_SERVER_ERROR"),  # WHEEL_TIMER_NOT_ENABLE
        ({"timer_max_delay_sec": 5}, 0, 5_001, 13, "ILLEGAL_DELIVERY_TIME"),  # WHEEL_TIMER_MSG_ILLEGAL
        ({"timer_wheel_enable": False}, 2, 1_000, 1, "INTERNAL_SERVER_ERROR"),
        ({"timer_max_delay_sec": 5}, 2, 5_001, 13, "ILLEGAL_DELIVERY_TIME"),
    ],
)
def test_what_the_timer_does_not_take_has_apaches_code(
    core: CoreHarness,
    monkeypatch: pytest.MonkeyPatch,
    properties: dict[str, object],
    waiting: int,
    delay_ms: int,
    code: int,
    v2_code: str,
) -> None:
    core.topic()
    for number in range(waiting):
        store(core, at(NOW + 1_000, f"{number}"))
    monkeypatch.setattr(delays, "PENDING_MAX", 2)
    with pytest.raises(BrokerError) as refused:
        store(with_properties(core, **properties), at(NOW + delay_ms))
    assert (refused.value.response_code, refused.value.code) == (code, v2_code)
