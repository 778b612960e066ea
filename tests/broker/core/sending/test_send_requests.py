"""Sends as a broker takes them over the remoting protocol: each row of rules 3.10.1."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.admin.topics import put_topic
from rmqpull_broker.core.errors import FAQ, BrokerError
from rmqpull_broker.core.model import PERM_READ, GroupConfig, Message, MessageQueue, TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.sending.publishing import AutoCreation
from rmqpull_broker.core.sending.queue_selection import QueueSelector
from rmqpull_broker.core.sending.send_requests import SendRequest, prepare_topic, send_request
from rmqpull_broker.core.sending.storing import Sent
from tests.harness.core import CoreHarness

ORDERS = SendRequest("orders", "broker-a", queue_id=0, producer="10.0.0.1:5")
LONG, RETRY = "t" * 128, "%RETRY%" + "g" * 249
BATCH = replace(ORDERS, is_batch=True)
HELLO = Message(b"hello", "ID")


def send(core: CoreHarness, request: SendRequest, *messages: Message) -> list[Sent]:
    return core.run(lambda draft: send_request(core.sender, draft, request, messages or (HELLO,), core.now_ms)).sent


def put(
    core: CoreHarness, name: str = "orders", read: int = 2, write: int = 2, perm: int = 6, order: bool = False
) -> None:
    core.run(lambda draft: put_topic(draft, TopicConfig(name, read, write, creation_id=name, perm=perm, order=order)))


def with_properties(core: CoreHarness, **values: object) -> CoreHarness:
    core.state.properties = BrokerProperties(**values)  # type: ignore[arg-type]
    return core


READ_ONLY = {"broker_permission": PERM_READ}
TOPIC_TEXT = (
    "TopicConfig [topicName=orders, readQueueNums=2, writeQueueNums=1, perm=RW-, topicFilterType=SINGLE_TAG, "
    "topicSysFlag=0, order=false, attributes={}]"
)
ILLEGAL = (
    "the message is illegal, maybe msg body or properties length not matched. msg body length limit 4194304B, "
    "msg properties length limit 32KB."
)


@pytest.mark.proves("A batch whose request has a delivery time in its properties")
@pytest.mark.proves("Properties of messages in a batch above 32,767 bytes")
@pytest.mark.proves("Sends to `rmq_sys_wheel_timer`")
@pytest.mark.parametrize(
    ("properties", "request_", "message", "response_code", "remark"),
    [
        (
            {"start_accept_send_request_time_stamp": 86_400_123},
            replace(ORDERS, topic=" "),
            HELLO,
            1,
            "broker unable to service, until 1970-01-02 00:00:00,123",
        ),
        (
            READ_ONLY,
            replace(ORDERS, topic="queue"),
            HELLO,
            16,
            "the broker[127.0.0.1] sending message is forbidden",
        ),
        ({}, replace(ORDERS, topic=""), HELLO, 29, "The specified topic is blank."),
        (
            {},
            replace(ORDERS, topic=LONG),
            HELLO,
            29,
            f"The specified topic: {LONG}, is longer than topic max length: 127",
        ),
        (
            {},
            replace(ORDERS, topic=RETRY),
            HELLO,
            29,
            f"The specified topic is DLQ or Retry topic: {RETRY}, and it's longer than topic max length: 255",
        ),
        (
            {},
            replace(ORDERS, topic="SCHEDULE_TOPIC_XXXX"),
            HELLO,
            16,
            "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden.",
        ),
        (
            {"auto_create_topic_enable": False},
            replace(ORDERS, topic="new"),
            HELLO,
            17,
            f"topic[new] not exist, apply first please!{FAQ}",
        ),
        (
            {},
            replace(ORDERS, topic="new", creation=AutoCreation("orders")),
            HELLO,
            17,
            f"topic[new] not exist, apply first please!{FAQ}",
        ),
        (
            {},
            replace(ORDERS, queue_id=2),
            HELLO,
            29,
            f"request queueId[2] is illegal, {TOPIC_TEXT} Producer: 10.0.0.1:5",
        ),
        (
            {},
            replace(ORDERS, topic="new", queue_id=-1, creation=AutoCreation("TBW102", 0)),
            HELLO,
            1,
            "topic[new] has no write queue to draw",
        ),
        (
            {"auto_create_subscription_group": False},
            replace(ORDERS, topic="%RETRY%readers"),
            HELLO,
            26,
            f"subscription group not exist, readers {FAQ}",
        ),
        (
            {},
            replace(ORDERS, topic="%RETRY%readers", is_batch=True),
            HELLO,
            13,
            "batch request does not support retry group %RETRY%readers",
        ),
        (
            {"reject_transaction_message": True},
            ORDERS,
            replace(HELLO, transactional=True),
            16,
            "the broker[127.0.0.1] sending transaction message is forbidden",
        ),
        (
            {},
            replace(ORDERS, topic="rmq_sys_wheel_timer"),
            HELLO,
            16,
            "Sending message to topic[rmq_sys_wheel_timer] is forbidden.",
        ),
        ({}, replace(ORDERS, topic="%STAGE%a"), HELLO, 16, "Sending message to topic[%STAGE%a] is forbidden."),
        ({}, replace(ORDERS, sys_flag=128), HELLO, 13, ILLEGAL),
        ({}, ORDERS, replace(HELLO, system_properties={"INNER_NUM": "2"}), 13, ILLEGAL),
        ({}, ORDERS, replace(HELLO, system_properties={"DELAY": "x"}), 1, "the delay level 'x' is not a number"),
        ({}, replace(BATCH, sys_flag=128), HELLO, 13, ILLEGAL),
        ({}, replace(BATCH, sys_flag=4), HELLO, 13, ILLEGAL),
        ({}, replace(BATCH, batch_properties={"INNER_NUM": "2"}), HELLO, 13, ILLEGAL),
        ({}, replace(BATCH, batch_properties={"DELAY": "2"}), HELLO, 13, ILLEGAL),
        ({}, replace(BATCH, batch_properties={"TIMER_DELAY_SEC": "3"}), HELLO, 13, ILLEGAL),
        ({}, BATCH, replace(HELLO, properties={"a": "v" * 32_700}), 13, ILLEGAL),
        ({}, replace(ORDERS, sys_flag=4), replace(HELLO, properties={"a": "v" * 32_700}), 13, ILLEGAL),
        ({}, ORDERS, replace(HELLO, body=bytes(4_194_305)), 13, ILLEGAL),
        ({"max_message_size": 4}, ORDERS, HELLO, 13, ILLEGAL.replace("4194304", "4")),
        ({}, ORDERS, replace(HELLO, properties={"a": "v" * 32_700}), 13, ILLEGAL),
    ],
)
def test_a_send_is_refused_by_the_rows_of_the_table(
    core: CoreHarness,
    properties: dict[str, object],
    request_: SendRequest,
    message: Message,
    response_code: int,
    remark: str,
) -> None:
    with_properties(core, **properties)
    core.state.system_topics = type(core.state)(core.state.store, ["broker-a"], core.state.properties).system_topics
    put(core, write=1)
    put(core, "queue", order=True)
    topics = dict(core.state.topics)
    with pytest.raises(BrokerError) as refusal:
        send(core, request_, message)
    assert (refusal.value.response_code, str(refusal.value)) == (response_code, remark)
    assert core.state.topics == topics
    assert core.state.bounds(core.queue()).max_offset == 0


@pytest.mark.parametrize("queue_id", [0, 1, 2])
def test_a_queue_is_taken_that_producers_or_consumers_see(core: CoreHarness, queue_id: int) -> None:
    put(core, read=1, write=3)
    assert send(core, replace(ORDERS, queue_id=queue_id))[0].queue == core.queue(queue_id)
    put(core, read=3, write=1)
    assert send(core, replace(ORDERS, queue_id=queue_id))[0].queue == core.queue(queue_id)


def test_a_queue_below_0_is_drawn_among_those_that_producers_see(core: CoreHarness) -> None:
    put(core, read=8, write=3)
    core.sender = replace(core.sender, selector=QueueSelector(lambda count: count - 1))
    assert send(core, replace(ORDERS, queue_id=-1))[0].queue == core.queue(2)


@pytest.mark.parametrize("perm", [0, PERM_READ])
def test_the_topics_own_permission_is_not_looked_at(core: CoreHarness, perm: int) -> None:
    put(core, perm=perm)
    assert len(send(core, ORDERS)) == 1


def test_a_broker_that_may_not_be_written_to_refuses_order_topics_alone(core: CoreHarness) -> None:
    with_properties(core, **READ_ONLY)
    put(core)
    assert len(send(core, ORDERS)) == 1


@pytest.mark.parametrize(
    ("creation", "queues"),
    [
        (AutoCreation("TBW102"), 4),
        (AutoCreation("TBW102", 3), 3),
        (AutoCreation("TBW102", 99), 8),
        (AutoCreation("DefaultCluster", 99), 16),
        (AutoCreation("broker-a"), 1),
    ],
)
def test_a_send_creates_its_topic_after_the_default_topic(
    core: CoreHarness, creation: AutoCreation, queues: int
) -> None:
    send(core, replace(ORDERS, topic="new", creation=creation))
    topic = core.state.require_topic("new")
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (queues, queues, 6)
    assert topic.creation_id


def test_a_topic_is_not_created_after_one_that_may_not_be_inherited(core: CoreHarness) -> None:
    put(core, perm=6)
    with pytest.raises(BrokerError, match="not exist"):
        send(core, replace(ORDERS, topic="new", creation=AutoCreation("orders")))
    put(core, perm=7, write=5)
    send(core, replace(ORDERS, topic="new", creation=AutoCreation("orders", 9)))
    assert (core.state.require_topic("new").write_queue_nums, core.state.require_topic("new").perm) == (5, 6)


def test_a_send_while_no_topics_are_created_ends_their_creation(core: CoreHarness) -> None:
    """As seen on a real broker (rules 3.9.3): turning the property on again does not bring it back."""
    new = replace(ORDERS, topic="new")
    with_properties(core, auto_create_topic_enable=False)
    with_properties(core, auto_create_topic_enable=True)
    send(core, replace(ORDERS, topic="before"))
    with_properties(core, auto_create_topic_enable=False)
    with pytest.raises(BrokerError, match="not exist"):
        send(core, new)
    with_properties(core, auto_create_topic_enable=True)
    with pytest.raises(BrokerError, match="not exist"):
        send(core, new)
    assert core.state.system_topics["TBW102"].perm == 6
    send(core, replace(new, creation=AutoCreation("broker-a")))


def test_a_retry_topic_is_created_by_a_send_even_so(core: CoreHarness) -> None:
    send(core, replace(ORDERS, topic="%RETRY%readers", creation=AutoCreation("none")))
    topic = core.state.require_topic("%RETRY%readers")
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)


@pytest.mark.parametrize(
    ("times", "asked_max", "topic"),
    [
        (3, None, "%RETRY%readers"),
        (4, None, "%DLQ%readers"),
        (4, 4, "%RETRY%readers"),
        (5, 4, "%DLQ%readers"),
        (0, 0, "%RETRY%readers"),
    ],
)
def test_a_retry_is_a_dead_letter_when_it_passes_the_groups_or_the_producers_limit(
    core: CoreHarness, times: int, asked_max: int | None, topic: str
) -> None:
    core.run(lambda draft: put_group(draft, GroupConfig("readers", retry_max_times=3)))
    request = replace(ORDERS, topic="%RETRY%readers", reconsume_times=times, max_reconsume_times=asked_max)
    ((queue, row),) = send(core, request)
    assert (queue, row.reconsume_times) == (MessageQueue(topic, "broker-a", 0), times)


@pytest.mark.proves("A UNIQ_KEY that the broker makes")
@pytest.mark.proves("The message id of a batch's message without a UNIQ_KEY, over gRPC")
def test_a_single_message_gets_an_id_and_a_member_of_a_batch_gets_none(core: CoreHarness) -> None:
    put(core)
    nameless = Message(b"x", "")
    assert len(send(core, ORDERS, nameless)[0].row.message.msg_id) == 34
    sent = send(core, replace(ORDERS, is_batch=True), nameless, HELLO)
    assert [(each.row.message.msg_id, each.row.queue_offset) for each in sent] == [("", 1), ("ID", 2)]


def test_the_producers_own_system_properties_are_kept(core: CoreHarness) -> None:
    put(core)
    ((_, row),) = send(core, ORDERS, replace(HELLO, system_properties={"WAIT": "true"}))
    assert row.message.system_properties == {"WAIT": "true"}


def test_properties_of_32767_bytes_are_the_most(core: CoreHarness) -> None:
    put(core)
    used = len("a..UNIQ_KEY.ID.MSG_REGION.DefaultRegion.TRACE_ON.true.CLUSTER.DefaultCluster.")
    send(core, ORDERS, replace(HELLO, properties={"a": "v" * (32_767 - used)}))
    with pytest.raises(BrokerError, match="properties length limit 32KB"):
        send(core, ORDERS, replace(HELLO, properties={"a": "v" * (32_768 - used)}))


@pytest.mark.parametrize("bits", [4, 12])
def test_a_half_message_that_does_not_say_so_itself_is_acknowledged_and_never_read(
    core: CoreHarness, bits: int
) -> None:
    put(core)
    send(core, ORDERS)
    ((queue, row),) = send(core, replace(ORDERS, sys_flag=bits))
    assert (queue, row.queue_offset) == (core.queue(), 0)
    assert core.state.bounds(core.queue()).max_offset == 1


def test_the_queue_of_the_request_is_told_for_a_message_that_waits_elsewhere(core: CoreHarness) -> None:
    put(core)
    delayed = replace(HELLO, system_properties={"DELAY": "3"})
    result = core.run(lambda draft: send_request(core.sender, draft, replace(ORDERS, queue_id=1), [delayed], 5))
    assert (result.queue_id, result.sent[0].queue.topic) == (1, "SCHEDULE_TOPIC_XXXX")


def test_a_batch_goes_to_one_drawn_queue(core: CoreHarness) -> None:
    put(core, write=3, read=3)
    drawn = iter([2, 1, 0])
    core.sender = replace(core.sender, selector=QueueSelector(lambda _: next(drawn)))
    sent = send(core, replace(BATCH, queue_id=-1), HELLO, HELLO, HELLO)
    assert {each.queue for each in sent} == {core.queue(2)}


@pytest.mark.parametrize("own", [{"DELAY": "3"}, {"TIMER_DELAY_SEC": "3"}, {"TRAN_MSG": "true"}])
def test_a_message_of_a_batch_is_not_delayed_by_its_own_properties(core: CoreHarness, own: dict[str, str]) -> None:
    put(core)
    ((queue, row),) = send(core, BATCH, replace(HELLO, system_properties=own, transactional="TRAN_MSG" in own))
    assert (queue, row.message.system_properties) == (core.queue(), own)


def test_a_topic_stays_when_a_later_row_refuses_the_message(core: CoreHarness) -> None:
    request = replace(ORDERS, topic="new", queue_id=99)
    core.run(lambda draft: prepare_topic(core.sender, draft, request, core.now_ms))
    with pytest.raises(BrokerError, match="illegal"):
        send(core, request)
    assert core.state.require_topic("new").write_queue_nums == 4
