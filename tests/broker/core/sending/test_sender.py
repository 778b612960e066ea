"""From messages to queues and offsets (rules 3.10, 5.11)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.admin.topics import create_topic
from rmqpull_broker.core.errors import (
    BrokerError,
    MessageBodyEmpty,
    MessageCorrupted,
    MessagePropertyConflictWithType,
    TopicNotFound,
)
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import PERM_READ, BodyEncoding, Message, MessageQueue, TopicConfig, TopicType
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.sending.delays import deliver_due
from rmqpull_broker.core.sending.publishing import AutoCreation, Published
from rmqpull_broker.core.sending.queue_selection import select_queue_of_group
from rmqpull_broker.core.state.draft import Draft
from tests.harness.core import CoreHarness

DAY_MS = 86_400_000
GROUPS = ["order-1", "order-2", "hello"]
PUBLISH_TYPES = {field.name: field.type for field in columns.STORED_SCHEMA}


def published(**values: list[Any]) -> pa.RecordBatch:
    return pa.record_batch({name: pa.array(texts, PUBLISH_TYPES[name]) for name, texts in values.items()})


def as_sent(messages: list[Message]) -> pa.RecordBatch:
    """The same messages as a batch to publish."""
    rows = [
        (m.body, m.msg_id, m.tags, list(m.keys), list(m.properties.items()), m.message_group, _us(m)) for m in messages
    ]
    names = ("body", "msgId", "tags", "keys", "properties", "messageGroup", "deliveryTimestamp")
    return published(**{name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)})


def _us(message: Message) -> int | None:
    return None if message.delivery_timestamp_ms is None else message.delivery_timestamp_ms * 1000


def test_messages_of_one_send_go_to_one_queue_in_their_order(core: CoreHarness) -> None:
    core.topic(queue_count=2)
    stored = core.send(Message(b"a", "1"), Message(b"b", "2"))
    assert stored == core.rows(core.queue(0))
    assert [(row.queue_offset, row.message.body) for row in stored] == [(0, b"a"), (1, b"b")]
    assert {(row.store_timestamp_ms, row.store_host) for row in stored} == {(1_000, "127.0.0.1:8081")}


def test_a_large_batch_is_checked_in_steps(core: CoreHarness) -> None:
    rows = core.batch([b"x"] * 40_000)
    *between, checked = core.sender.check(Published("orders", rows, "client"), core.now_ms)
    assert between == [None] * 3
    assert checked is not None
    assert checked.batch.num_rows == 40_000


def test_a_bad_row_is_found_in_each_step(core: CoreHarness) -> None:
    for bad in (0, 16_383, 16_384, 39_999):
        with pytest.raises(MessageBodyEmpty):
            core.check(core.batch([b"" if row == bad else b"x" for row in range(40_000)]))


def test_sends_take_the_queues_in_turn(core: CoreHarness) -> None:
    core.topic(queue_count=3)
    for number in range(7):
        core.send(Message(b"x", str(number)))
    assert [[row.message.msg_id for row in core.rows(core.queue(n))] for n in range(3)] == [
        ["0", "3", "6"],
        ["1", "4"],
        ["2", "5"],
    ]


def test_a_message_group_stays_on_the_queue_of_its_hash(core: CoreHarness) -> None:
    core.topic(queue_count=4, topic_type=TopicType.FIFO)
    for number in range(4):
        core.send(Message(b"x", str(number), message_group=["hello", "user:42"][number % 2]))
    assert [[row.message.msg_id for row in core.rows(core.queue(n))] for n in range(4)] == [
        [],
        ["1", "3"],
        [],
        ["0", "2"],
    ]


@given(
    batches=st.lists(
        st.lists(
            st.builds(
                Message,
                st.binary(min_size=1, max_size=3),
                st.uuids().map(str),
                st.none() | st.sampled_from(["red", "blue"]),
                message_group=st.sampled_from(GROUPS),
            ),
            min_size=1,
            max_size=6,
        ),
        max_size=4,
    ),
    queue_count=st.integers(1, 4),
)
def test_a_published_batch_of_groups_ends_up_like_the_same_messages_sent_one_by_one(
    batches: list[list[Message]], queue_count: int
) -> None:
    together, one_by_one = CoreHarness(), CoreHarness()
    for core in (together, one_by_one):
        core.topic(queue_count, TopicType.FIFO)
    for messages in batches:
        together.publish(as_sent(messages))
        for each in messages:
            one_by_one.send(each)
    for queue_id in range(queue_count):
        queue = together.queue(queue_id)
        assert [(r.queue_offset, r.message.msg_id, r.message.tags) for r in together.rows(queue)] == [
            (r.queue_offset, r.message.msg_id, r.message.tags) for r in one_by_one.rows(queue)
        ]


def test_a_publish_answers_with_the_ranges_that_its_rows_became(core: CoreHarness) -> None:
    core.topic(queue_count=3)
    core.send(Message(b"first", "0"))
    parts = core.publish(published(body=[b"a", b"b", b"c", b"d"]))
    assert parts == ((core.queue(1), 0, 2), (core.queue(2), 0, 1), (core.queue(0), 1, 1))


def test_what_a_publisher_leaves_out_gets_its_default(core: CoreHarness) -> None:
    core.topic()
    core.publish(published(body=[b"a"]))
    core.publish(
        published(body=[b"b"], **{name: [None] for name in PUBLISH_TYPES if name not in ("body", "queueOffset")})
    )
    for row in core.rows(core.queue()):
        message = row.message
        assert (message.tags, message.keys, message.properties, message.message_group) == (None, (), {}, None)
        assert (message.born_timestamp_ms, message.born_host, row.store_timestamp_ms) == (1_000, "client", 1_000)
        assert (message.body_encoding, row.reconsume_times, len(message.msg_id)) == (BodyEncoding.IDENTITY, 0, 34)


def test_what_a_publisher_gives_is_kept(core: CoreHarness) -> None:
    core.topic()
    core.publish(
        published(
            body=[b"a", b"b"], msgId=["given", None], keys=[["k"], None], properties=[None, [("p", "v")]],
            bornTimestamp=[5_000, None], bornHost=["born", None], bodyEncoding=[2, None],
        )
    )  # fmt: skip
    first, second = (row.message for row in core.rows(core.queue()))
    assert (first.msg_id, first.keys, first.properties, first.born_timestamp_ms) == ("given", ("k",), {}, 5)
    assert (first.born_host, first.body_encoding) == ("born", BodyEncoding.GZIP)
    assert (second.keys, second.properties, second.born_timestamp_ms) == ((), {"p": "v"}, 1_000)
    assert second.msg_id != "given"


def test_what_only_the_broker_may_say_is_not_taken_from_a_publisher(core: CoreHarness) -> None:
    core.topic()
    core.publish(published(body=[b"a"], queueOffset=[77], storeHost=["liar"], storeTimestamp=[0], reconsumeTimes=[9]))
    (row,) = core.rows(core.queue())
    assert (row.queue_offset, row.store_host, row.store_timestamp_ms, row.reconsume_times) == (
        0,
        "127.0.0.1:8081",
        1_000,
        0,
    )


def test_what_a_missing_map_hides_is_not_stored(core: CoreHarness) -> None:
    core.topic()
    texts = pa.array(["a", "b"])
    maps = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), texts, texts, mask=pa.array([True, False]))
    core.publish(pa.record_batch({"body": pa.array([b"x", b"y"]), "properties": maps}))
    assert [row.message.properties for row in core.rows(core.queue())] == [{}, {"b": "b"}]


@pytest.mark.parametrize(
    ("topic", "messages", "code"),
    [
        ("orders", [], "MESSAGE_CORRUPTED"),
        ("unknown", [Message(b"x", "1")], "TOPIC_NOT_FOUND"),
        ("un known", [Message(b"x", "1")], "ILLEGAL_TOPIC"),
        ("orders", [Message(b"x", "1"), Message(b"", "2")], "MESSAGE_BODY_EMPTY"),
        ("orders", [Message(b"x", "1", message_group="g")], "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"),
        ("delayed", [Message(b"x", "1", delivery_timestamp_ms=DAY_MS + 1_001)], "ILLEGAL_DELIVERY_TIME"),
        ("silent", [Message(b"x", "1")], "FORBIDDEN"),
        ("%RETRY%readers", [Message(b"x", "1"), Message(b"x", "2")], "MESSAGE_CORRUPTED"),
    ],
)
def test_a_refused_send_or_publish_stores_nothing_and_spends_no_offset_and_no_turn(
    core: CoreHarness, topic: str, messages: list[Message], code: str
) -> None:
    core.topic(queue_count=2)
    core.topic(topic_type=TopicType.DELAY, name="delayed")
    core.topic(name="%RETRY%readers")
    core.run(lambda draft: create_topic(draft, TopicConfig("silent", 1, 1, perm=PERM_READ)))
    batch = as_sent(messages) if messages else published(body=[])
    for command in (lambda: core.send(*messages, topic=topic), lambda: core.publish(batch, topic=topic)):
        with pytest.raises(BrokerError) as refusal:
            command()
        assert refusal.value.code == code
    assert [row.queue_offset for row in core.send(Message(b"x", "1"))] == [0]
    assert core.rows(core.queue(0))[0].message.msg_id == "1"


def test_a_transactional_message_needs_a_topic_of_its_type_but_a_body_first(core: CoreHarness) -> None:
    core.topic()
    with pytest.raises(MessagePropertyConflictWithType, match="actual type is TRANSACTION"):
        core.send(Message(b"x", "1", transactional=True))
    with pytest.raises(MessageBodyEmpty):
        core.send(Message(b"", "1", transactional=True))


def test_a_name_is_checked_before_the_messages_and_these_before_the_topic(core: CoreHarness) -> None:
    with pytest.raises(BrokerError, match="blank"):
        core.send(Message(b"", ""), topic="")
    with pytest.raises(MessageBodyEmpty):
        core.send(Message(b"", ""))
    with pytest.raises(TopicNotFound):
        core.send(Message(b"x", "1"))
    with pytest.raises(MessageCorrupted, match="no message to send"):
        core.send()


@pytest.mark.parametrize("by_columns", [False, True])
def test_rocketmqs_own_properties_that_a_user_sets_are_not_stored_as_the_users(
    core: CoreHarness, by_columns: bool
) -> None:
    core.topic()
    given = {"INNER_MULTI_DISPATCH": "a,b", "colour": "red", "REDIRECT": "x", "TRACE_CONTEXT": "00-4b"}
    sent = [Message(b"a", "1", properties=given), Message(b"b", "2", properties={"colour": "blue"})]
    if by_columns:
        core.publish(as_sent(sent))
    else:
        for message in sent:
            core.send(message)
    own, plain = (row.message for row in core.rows(core.queue()))
    assert (own.properties, own.trace_context) == ({"colour": "red"}, "00-4b")
    assert own.system_properties == {"INNER_MULTI_DISPATCH": "a,b", "REDIRECT": "x"}
    assert (plain.properties, plain.system_properties) == ({"colour": "blue"}, {})


@pytest.mark.parametrize("by_columns", [False, True])
def test_what_a_user_sets_as_sharding_key_is_the_message_group_but_chooses_no_queue(
    core: CoreHarness, by_columns: bool
) -> None:
    core.topic(queue_count=4, topic_type=TopicType.FIFO)
    sent = [
        Message(b"a", "1", message_group="order-1", properties={"colour": "red"}),
        Message(b"b", "2", properties={"__SHARDINGKEY": "order-1", "colour": "red"}),
        Message(b"c", "3", message_group="order-1", properties={"__SHARDINGKEY": "foreign"}),
    ]
    if by_columns:
        core.publish(as_sent(sent))
    else:
        for message in sent:
            core.send(message)
    stored = {row.message.body: row.message for queue_id in range(4) for row in core.rows(core.queue(queue_id))}
    assert {message.message_group for message in stored.values()} == {"order-1"}
    assert [dict(stored[body].properties) for body in (b"a", b"b", b"c")] == [{"colour": "red"}, {"colour": "red"}, {}]
    of_group, in_turn = (
        {row.message.body for row in core.rows(core.queue(queue_id))}
        for queue_id in (select_queue_of_group("order-1", 4), 0)
    )
    assert (of_group, in_turn) == ({b"a", b"c"}, {b"b"})


def test_sends_that_are_drafted_together_get_offsets_one_after_another(core: CoreHarness) -> None:
    core.topic(queue_count=2)
    draft = Draft(core.state)
    for number in range(3):
        core.sender.send(draft, "orders", [Message(b"x", str(number))], 1_000)
        draft.end_command()
    core.sender.publish(draft, core.check(published(body=[b"y", b"z"])), 1_000)
    draft.end_command()
    assert core.state.bounds(core.queue(0)).max_offset == 0
    for facts in draft.fact_batches:
        core.state.apply(facts)
    assert [[row.queue_offset for row in core.rows(core.queue(n))] for n in range(2)] == [[0, 1, 2], [0, 1]]


def test_an_empty_tag_or_message_group_is_none(core: CoreHarness) -> None:
    core.topic()
    core.publish(published(body=[b"a", b"b"], tags=["", "t"], messageGroup=["", None]))
    [batch] = core.state.store.read(core.queue(), 0, 2)
    assert batch.column("tags").to_pylist() == [None, "t"]
    assert batch.column("messageGroup").null_count == 2


@pytest.mark.proves("FIFO messages of several groups in one SendMessage")
def test_messages_of_several_groups_sent_together_keep_the_order_of_each(core: CoreHarness) -> None:
    core.topic(queue_count=4, topic_type=TopicType.FIFO)
    together = [Message(b"1", f"{group}1", message_group=group) for group in GROUPS]
    alone = [Message(b"2", f"{group}2", message_group=group) for group in GROUPS]
    first, second = core.send(*together), [row for message in alone for row in core.send(message)]
    assert [row.message for row in first] == together
    for queue_id in range(4):
        queue = core.queue(queue_id)
        bounds = core.state.bounds(queue)
        rows = columns.to_rows(core.state.store.read(queue, *bounds)) if bounds.max_offset else []
        assert [row.queue_offset for row in rows] == list(range(len(rows)))
        for group in {row.message.message_group for row in rows}:
            mine = [row.message.body for row in rows if row.message.message_group == group]
            assert mine == [b"1", b"2"]
    assert len(second) == len(GROUPS)


def test_the_newest_store_time_is_known_for_the_clock_of_the_next_start(core: CoreHarness) -> None:
    core.topic()
    assert core.state.newest_store_ms == 0
    core.now_ms = 5_000
    core.send(Message(b"x", "1"))
    core.now_ms = 4_000
    core.publish(published(body=[b"y"]))
    assert core.state.newest_store_ms == 5_000


MESSAGES = st.builds(
    Message,
    st.binary(min_size=1, max_size=3),
    st.uuids().map(str),
    message_group=st.none() | st.sampled_from(GROUPS),
    delivery_timestamp_ms=st.none() | st.integers(0, 100_000),
)


def is_placed(messages: list[Message]) -> bool:
    """Whether rows are placed one by one: those of a batch in which one has a message group or a delivery time."""
    return any(message.message_group or message.delivery_timestamp_ms is not None for message in messages)


@given(st.lists(st.lists(MESSAGES, min_size=1, max_size=6).filter(is_placed), max_size=4))
def test_a_batch_of_any_types_ends_up_like_the_same_messages_sent_one_by_one(batches: list[list[Message]]) -> None:
    together, one_by_one = CoreHarness(), CoreHarness()
    for core in (together, one_by_one):
        core.state.properties = BrokerProperties(enable_mixed_message_type=True)
        core.topic(4, TopicType.MIXED)
    for messages in batches:
        parts = together.publish(as_sent(messages))
        assert sum(part.row_count for part in parts) == len(messages)
        for each in messages:
            one_by_one.send(each)
    for core in (together, one_by_one):
        core.run(lambda draft: deliver_due(draft, 200_000, "store"))
    for queue_id in range(4):
        queue = together.queue(queue_id)
        ids = [[row.message.msg_id for row in core.rows(queue)] for core in (together, one_by_one)]
        assert ids[0] == ids[1]


def test_publishing_returns_the_system_queues_of_delayed_rows(core: CoreHarness) -> None:
    core.topic(2, TopicType.DELAY)
    later, passed = 5_500_000, 500_000
    batch = published(body=[b"a", b"b", b"c"], deliveryTimestamp=[later, passed, later])
    timer = MessageQueue("rmq_sys_wheel_timer", "broker-a", 0)
    assert core.publish(batch) == ((core.queue(1), 0, 1), (timer, 0, 2))


def test_a_batch_may_create_its_topic_and_a_refused_one_creates_none(core: CoreHarness) -> None:
    def publish(batch: pa.RecordBatch, creation: AutoCreation | None) -> object:
        return core.publish(batch, "new", creation=creation)

    good, bad = published(body=[b"x"]), published(body=[b"x"], messageGroup=["g"])
    creation = AutoCreation("TBW102", 2)
    for batch, asked, error in ((good, None, TopicNotFound), (bad, creation, MessagePropertyConflictWithType)):
        with pytest.raises(error):
            publish(batch, asked)
        assert "new" not in core.state.topics
    assert publish(good, creation) == ((core.queue(topic="new"), 0, 1),)
    assert core.state.require_topic("new").write_queue_nums == 2
