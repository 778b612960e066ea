"""In which queue a message with a priority is stored, by each way of sending it (rules 3.19)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.errors import InternalError, MessagePropertyConflictWithType
from rmqpull_broker.core.model import Message, MessageQueue, TopicType
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.sending.priorities import apply_priority, read_priority
from rmqpull_broker.core.sending.send_requests import SendRequest, SendResult, send_request
from rmqpull_broker.core.sending.storing import MessageToStore
from tests.harness.core import CoreHarness

PRIORITY = "_SYS_MSG_PRIORITY_"
QUEUE = MessageQueue("orders", "broker-a", 1)


def make(priority: str, **more: Any) -> Message:
    own = {PRIORITY: priority, **more.pop("own", {})}
    return Message(b"x", "ID", system_properties=own, **more)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("7", 7),
        ("+7", 7),
        ("2147483647", 2_147_483_647),
        ("2147483648", None),
        ("-1", None),
        ("high", None),
        (" 1", None),
    ],
)
def test_a_priority_is_a_number_of_java(text: str, number: int | None) -> None:
    assert read_priority(make(text)) == number


@pytest.mark.parametrize(
    ("message", "queue_id", "is_kept"),
    [
        (make("0"), 0, True),
        (make("2"), 2, True),
        (make("3"), 3, True),
        (make("99"), 3, True),
        (make("x"), 1, True),
        (make("-1"), 1, True),
        (make("3", message_group="g"), 1, False),
        (make("3", delivery_timestamp_ms=1), 1, False),
        (make("3", own={"DELAY": "0"}), 1, False),
        (make("3", own={"TIMER_DELAY_MS": "5"}), 1, False),
        (make("3", own={"TIMER_DELAY_SEC": "5"}), 1, False),
        (make("3", transactional=True), 1, False),
        (make("x", message_group="g"), 1, True),
    ],
)
def test_the_priority_chooses_the_queue_of_a_message_without_another_type(
    message: Message, queue_id: int, is_kept: bool
) -> None:
    stored = apply_priority(MessageToStore(QUEUE, message), 4)
    assert (stored.queue.queue_id, PRIORITY in stored.message.system_properties) == (queue_id, is_kept)


@pytest.mark.parametrize("topic_type", [TopicType.NORMAL, TopicType.PRIORITY, TopicType.FIFO])
def test_over_the_remoting_protocol_the_type_of_the_topic_does_not_matter(
    core: CoreHarness, topic_type: TopicType
) -> None:
    core.topic(queue_count=4, topic_type=topic_type)

    def send(request: SendRequest, *messages: Message) -> SendResult:
        return core.run(lambda draft: send_request(core.sender, draft, request, messages, core.now_ms))

    request = SendRequest("orders", "broker-a", queue_id=1)
    assert send(request, make("2")).queue_id == 2
    assert send(request, make("2", message_group="g")).queue_id == 1
    batch = send(SendRequest("orders", "broker-a", queue_id=1, is_batch=True), make("2"), make("3"))
    assert (batch.queue_id, {sent.queue.queue_id for sent in batch.sent}) == (1, {1})
    assert [row.message.system_properties.get(PRIORITY) for row in core.rows(core.queue(1))] == [None, "2", "3"]
    assert [row.message.system_properties for row in core.rows(core.queue(2))] == [{PRIORITY: "2"}]


def test_over_grpc_the_topic_must_be_of_this_type_and_several_messages_are_a_batch(core: CoreHarness) -> None:
    core.topic(queue_count=4, topic_type=TopicType.PRIORITY)
    core.topic(queue_count=4, name="plain")
    core.send(make("3"))
    core.send(make("2"), make("1"))
    assert [len(core.rows(core.queue(queue_id))) for queue_id in range(4)] == [0, 2, 0, 1]
    with pytest.raises(MessagePropertyConflictWithType, match="expected type is NORMAL, but actual type is PRIORITY"):
        core.send(make("3"), topic="plain")
    with pytest.raises(MessagePropertyConflictWithType, match="expected type is PRIORITY, but actual type is NORMAL"):
        core.send(Message(b"x", "ID"))
    with pytest.raises(InternalError, match=r"^The priority must be greater than or equal to 0$"):
        core.send(make("-1"))


def test_each_broker_has_a_queue_for_the_priority() -> None:
    core = CoreHarness(("broker-a", "broker-b"))
    core.topic(queue_count=2, topic_type=TopicType.PRIORITY)
    for _ in range(4):
        core.send(make("1"))
    found = {name: len(core.rows(MessageQueue("orders", name, 1))) for name in ("broker-a", "broker-b")}
    assert found == {"broker-a": 2, "broker-b": 2}


ROWS = st.tuples(
    st.none() | st.integers(0, 4) | st.just(2_147_483_647), st.none() | st.just("g"), st.none() | st.integers(1, 9_000)
)


@given(rows=st.lists(ROWS, min_size=1).filter(lambda rows: any(row != (None, None, None) for row in rows)))
def test_rows_of_a_batch_are_stored_like_single_messages(rows: list[tuple[int | None, str | None, int | None]]) -> None:
    one_by_one, at_once = (CoreHarness(("broker-a", "broker-b")) for _ in range(2))
    for core in (one_by_one, at_once):
        core.state.properties = BrokerProperties(enable_mixed_message_type=True)
        core.topic(queue_count=3, topic_type=TopicType.MIXED)
    for number, (priority, group, delay_ms) in enumerate(rows):
        own = {} if priority is None else {PRIORITY: str(priority)}
        delivery_ms = None if delay_ms is None else one_by_one.now_ms + delay_ms
        one_by_one.send(
            Message(b"x", str(number), message_group=group, delivery_timestamp_ms=delivery_ms, system_properties=own)
        )
    priorities, groups, delays = (list(values) for values in zip(*rows, strict=True))
    times = [None if delay_ms is None else (at_once.now_ms + delay_ms) * 1000 for delay_ms in delays]
    columns = {
        "body": pa.array([b"x"] * len(rows)),
        "msgId": pa.array([str(number) for number in range(len(rows))]),
        "messageGroup": pa.array(groups, pa.string()),
        "deliveryTimestamp": pa.array(times, pa.timestamp("us", "UTC")),
        "priority": pa.array(priorities, pa.int32()),
    }
    at_once.publish(pa.record_batch(columns))

    def read(core: CoreHarness, queue: MessageQueue) -> list[tuple[str, Any]]:
        return [(row.message.msg_id, dict(row.message.system_properties)) for row in core.rows(queue)]

    for broker in ("broker-a", "broker-b"):
        for queue_id in range(3):
            queue = MessageQueue("orders", broker, queue_id)
            assert read(at_once, queue) == read(one_by_one, queue)


def test_a_batch_keeps_other_own_properties_beside_the_priority(core: CoreHarness) -> None:
    core.state.properties = BrokerProperties(enable_mixed_message_type=True)
    core.topic(queue_count=1, topic_type=TopicType.MIXED)
    properties = [[("INNER_NUM", "2"), ("mine", "1")], [], [("TRANS_OFFSET", "3")], None]
    columns = {
        "body": pa.array([b"x"] * 4),
        "properties": pa.array(properties, pa.map_(pa.string(), pa.string())),
        "priority": pa.array([5, 6, None, None], pa.int32()),
    }
    core.publish(pa.record_batch(columns))
    stored = [dict(row.message.system_properties) for row in core.rows(core.queue())]
    assert stored == [{"INNER_NUM": "2", PRIORITY: "5"}, {PRIORITY: "6"}, {"TRANS_OFFSET": "3"}, {}]


def test_a_topic_of_priorities_takes_no_other_rows(core: CoreHarness) -> None:
    core.topic(queue_count=2, topic_type=TopicType.PRIORITY)
    for priorities in ([1, None], [None, None]):
        with pytest.raises(MessagePropertyConflictWithType, match="expected type is PRIORITY, but actual type is NORM"):
            core.publish(pa.record_batch({"body": [b"x", b"y"], "priority": pa.array(priorities, pa.int32())}))
