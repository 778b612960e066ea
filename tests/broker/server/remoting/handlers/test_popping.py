"""Pops of the remoting protocol: what is delivered, waits, and requests that deliver nothing, as 5.3.3 answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.admin.topics import put_topic
from rmqpull_broker.core.model import GroupConfig, Message, TopicConfig
from rmqpull_broker.core.popping.request import PopResult
from rmqpull_broker.core.pulling.message_pull import SCAN_ENTRIES
from rmqpull_broker.server.clock import ManualClock
from rmqpull_broker.server.remoting.connection import RemotingConnection
from rmqpull_broker.server.runtime.pops import RELEASED_AFTER_MS, Pops
from rmqpull_broker.testing import RunningBroker, running_broker
from tests.harness.parking_watch import watch_parking
from tests.harness.remoting_pops import GROUP, TOPIC, PopMember, read_bodies, read_messages
from tests.harness.settable_clock import living_broker
from tests.harness.waiting import wait_until

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
NOTHING = {"popTime": "0", "invisibleTime": "0", "reviveQid": "0", "restNum": "0"}


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker({"orders": 1, "many": 4, "empty": 1}, remoting=True, clock="manual") as running:
        yield running


@pytest.fixture
def member(broker: RunningBroker) -> Iterator[PopMember]:
    with PopMember(broker) as connected:
        yield connected


# --- what is delivered ------------------------------------------------------------------------------------------------


def test_a_pop_delivers_messages_and_tells_their_places(broker: RunningBroker, member: PopMember) -> None:
    member.send("one", "two", "three")
    response = member.pop(maxMsgNums=2)
    assert (response.code, response.remark, read_bodies(response)) == (0, "FOUND", ["one", "two"])
    assert (
        response.fields.items()
        >= {
            "invisibleTime": "60000",
            "popTime": str(broker.clock.now_ms()),
            "restNum": "1",
            "startOffsetInfo": "0 0 0",
            "msgOffsetInfo": "0 0 0,1",
        }.items()
    )
    assert "orderCountInfo" not in response.fields
    assert read_bodies(member.pop()) == ["three"]


def test_an_invisible_time_after_the_end_of_javas_time_has_ended(broker: RunningBroker, member: PopMember) -> None:
    """As one of 0, with which messages are redelivered by the retry topic; one that is only long lasts."""
    member.send("one", "two")
    times = [2**63 - 1, 2**63 - 1 - broker.clock.now_ms()]
    answers = [member.pop(maxMsgNums=1, invisibleTime=ms) for ms in times]
    assert [read_bodies(answer) for answer in answers] == [["one"], ["two"]]
    assert [int(answer.fields["invisibleTime"]) for answer in answers] == times
    broker.clock.advance(1_000)
    assert [read_bodies(member.pop()) for _ in range(2)] == [["one"], []]


def test_a_pop_of_all_queues_has_an_entry_for_each(member: PopMember) -> None:
    member.send(*"abcdefgh", topic="many")
    response = member.pop(topic="many", queueId=-1)
    assert sorted(read_bodies(response)) == ["a", "b", "c", "d", "e", "f", "g", "h"]
    assert sorted(response.fields["msgOffsetInfo"].split(";")) == [f"0 {queue} 0,1" for queue in range(4)]
    assert sorted(response.fields["startOffsetInfo"].split(";")) == [f"0 {queue} 0" for queue in range(4)]


def test_what_a_closed_connection_got_is_redelivered_after_a_second(
    broker: RunningBroker, member: PopMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    member.send("one")
    pop = Pops.pop

    async def pop_and_leave(*arguments: Any, **options: Any) -> PopResult:
        result = await pop(*arguments, **options)
        closed.setattr(RemotingConnection, "is_open", False)
        return result

    with PopMember(broker) as leaving, monkeypatch.context() as closed:
        closed.setattr(Pops, "pop", pop_and_leave)
        leaving.start_pop()
        again_ms = broker.clock.now_ms() + RELEASED_AFTER_MS
        wait_until(lambda: broker.look(lambda state: state.popped.next_due_ms()) == again_ms, "the release")
    broker.clock.advance(RELEASED_AFTER_MS)
    assert read_bodies(member.pop()) == ["one"]


def test_what_is_not_acknowledged_in_time_is_redelivered_with_its_receipt(
    broker: RunningBroker, member: PopMember
) -> None:
    """As if it came from the topic itself, with one more attempt."""
    member.send("one", "two")
    first = member.pop()
    assert member.ack(member.list_receipts(first)[0]).code == 0
    broker.clock.advance(60_000)
    again = member.pop()
    assert (read_bodies(again), again.fields["startOffsetInfo"], again.fields["msgOffsetInfo"]) == (
        ["two"],
        "1 0 0",
        "1 0 0",
    )
    (record,) = read_messages(again)
    assert (record["topic"], record["reconsumeTimes"]) == ("orders", 1)
    receipt = record["properties"]["POP_CK"]
    assert receipt == f"0 {again.fields['popTime']} 60000 {again.fields['reviveQid']} 1 broker-a 0 0"
    assert member.ack(receipt).code == 0
    broker.clock.advance(60_000)
    assert member.pop().code == 210


@pytest.mark.parametrize(
    ("expression", "kind", "bodies"),
    [
        ("*", "TAG", ["1", "2", "3"]),
        ("red || blue", "TAG", ["1", "3"]),
        ("weight > 1", "SQL92", ["2", "3"]),
        ("red", "", []),
    ],
)
def test_filters(member: PopMember, expression: str, kind: str, bodies: list[str]) -> None:
    for weight, tags in enumerate(("red", "green", "blue"), start=1):
        member.send(str(weight), tags=tags, properties={"weight": str(weight)})
    assert read_bodies(member.pop(exp=expression, expType=kind)) == bodies


def test_a_batch_in_order_blocks_its_queue(broker: RunningBroker, member: PopMember) -> None:
    """Until its messages are acknowledged, or visible again; not for the attempt that got it."""
    member.send("one", "two", "three")
    order = {"order": "true", "maxMsgNums": 2, "attemptId": "a"}
    first = member.pop(**order)
    assert (read_bodies(first), first.fields["reviveQid"], first.fields["orderCountInfo"]) == (
        ["one", "two"],
        "999",
        "0 0 0",
    )
    blocked = member.pop(**order | {"attemptId": "b"})
    assert (blocked.code, blocked.fields["orderCountInfo"]) == (210, "")
    same = member.pop(**order)
    assert (read_bodies(same), same.fields["orderCountInfo"]) == (["one", "two"], "0 0 0")
    member.ack(member.list_receipts(same)[0])
    broker.clock.advance(60_000)
    again = member.pop(**order | {"attemptId": "b"})
    assert (read_bodies(again), again.fields["orderCountInfo"]) == (["two", "three"], "0 qo0%1 1;0 0 0")


@pytest.mark.proves("A group's progress")
def test_the_progress_moves_with_the_pop(broker: RunningBroker, member: PopMember) -> None:
    member.send("one", "two", "three")
    member.pop(maxMsgNums=2)
    assert list(broker.consumer_offsets(GROUP, TOPIC).values()) == [2]


@pytest.mark.proves("A pop in order with an invisible time of 0 or less")
def test_in_order_without_an_invisible_time_nothing_blocks(member: PopMember) -> None:
    member.send("one", "two")
    order = {"order": "true", "invisibleTime": 0}
    assert [read_bodies(member.pop(**order)) for _ in range(2)] == [["one", "two"]] * 2


# --- refusals and waits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"maxMsgNums": 33}, 29, "the broker[127.0.0.1] pop message's num is greater than 32"),
        ({"topic": "unknown"}, 17, f"topic[unknown] not exist, apply first please! {FAQ}"),
        ({"topic": "closed"}, 16, "the topic[closed] peeking message is forbidden"),
        ({"queueId": 1}, 29, "queueId[1] is illegal, topic:[orders] topicConfig.readQueueNums:[1] consumer:[/ME]"),
        ({"consumerGroup": "g" * 256}, 26, f"subscription group [{'g' * 256}] does not exist, {FAQ}"),
        ({"consumerGroup": "stopped"}, 16, "subscription group no permission, stopped"),
        ({"exp": "||"}, 23, "parse the consumer's subscription failed"),
        ({"exp": "a >", "expType": "SQL92"}, 23, "parse the consumer's subscription failed"),
        ({"exp": "a", "expType": "XPATH"}, 23, "parse the consumer's subscription failed"),
    ],
)
def test_refusals(broker: RunningBroker, member: PopMember, fields: dict[str, Any], code: int, remark: str) -> None:
    broker.change(lambda draft: put_topic(draft, TopicConfig("closed", 1, 1, perm=2)))
    broker.change(lambda draft: put_group(draft, GroupConfig("stopped", consume_enable=False)))
    response = member.pop(**fields)
    assert (response.code, member.hide_address(response)) == (code, remark)
    assert response.fields == NOTHING


def test_a_pop_without_messages_that_does_not_wait(member: PopMember) -> None:
    response = member.pop(topic="empty")
    assert (response.code, response.remark) == (210, "NO_MESSAGE_IN_QUEUE")
    assert response.fields.items() >= {"startOffsetInfo": "", "msgOffsetInfo": "", "restNum": "0"}.items()


@pytest.mark.proves("A pop of no message (`maxMsgNums` 0) that may wait")
def test_a_pop_of_no_message_does_not_wait(member: PopMember) -> None:
    member.send("one")
    response = member.pop(maxMsgNums=0, pollTime=15_000)
    assert (response.code, response.fields["restNum"]) == (210, "1")


@pytest.mark.proves("The time since a pop was sent, with a manual clock")
def test_a_moved_clock_makes_no_pop_late(broker: RunningBroker, member: PopMember) -> None:
    member.send("one")
    sent_ms = broker.clock.now_ms()
    broker.clock.advance(minutes=1)
    assert read_bodies(member.pop(bornTime=sent_ms)) == ["one"]


def test_a_pop_that_its_consumer_has_given_up_is_refused() -> None:
    """By the system's clock."""
    with running_broker({"orders": 1}, remoting=True) as broker, PopMember(broker) as member:
        response = member.pop(bornTime=1_700_000_000_000)
        text = "the broker[127.0.0.1] pop message is timeout too much"
        assert (response.code, response.remark, response.fields) == (210, text, NOTHING)
        assert member.pop(bornTime=2_700_000_000_000).remark == "NO_MESSAGE_IN_QUEUE"


def test_a_pop_with_its_true_born_time_is_served_after_a_message_from_the_future(tmp_path: Path) -> None:
    async def send_in_the_future() -> None:
        async with living_broker(ManualClock(2_700_000_000_000), tmp_path) as broker:
            await broker.send(b"from the future")

    asyncio.run(send_in_the_future())
    with running_broker(remoting=True, data_dir=str(tmp_path)) as broker, PopMember(broker) as member:
        born_ms = time.time_ns() // 1_000_000
        assert read_bodies(member.pop(bornTime=born_ms, pollTime=60_000)) == ["from the future"]


def test_a_pop_waits_for_a_message_and_can_be_counted(broker: RunningBroker, member: PopMember) -> None:
    with PopMember(broker) as other:
        other.start_pop(pollTime=15_000)
        wait_until(lambda: member.count_waiting(queueId=0) == 1, "waits")
        assert member.count_waiting(queueId=-1) == 0
        member.send("one")
        assert read_bodies(other.receive()) == ["one"]
        assert member.count_waiting(queueId=0) == 0


def test_a_pop_that_waits_in_vain_gets_210(broker: RunningBroker, member: PopMember) -> None:
    with PopMember(broker) as other:
        other.start_pop(pollTime=15_000)
        wait_until(lambda: member.count_waiting(queueId=0) == 1, "waits")
        broker.clock.advance(15_000)
        assert other.receive().code == 210


# --- requests that deliver nothing ------------------------------------------------------------------------------------


def test_a_peek_shows_what_a_pop_would_find(member: PopMember) -> None:
    member.send("one", "two")
    for _ in range(2):
        response = member.peek()
        assert (response.code, read_bodies(response)) == (0, ["one", "two"])
        assert response.fields == NOTHING | {"restNum": "2"}
    member.pop()
    response = member.peek()
    assert (response.code, response.remark, response.fields) == (19, "NO_MESSAGE_IN_QUEUE", NOTHING)


def test_a_consumer_is_notified_of_messages(
    broker: RunningBroker, member: PopMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = watch_parking(monkeypatch)
    assert member.ask_notification(pollTime=0) == {"hasMsg": "false", "pollingFull": "false"}
    with PopMember(broker) as other:
        other.start_notification(pollTime=15_000)
        watch.await_parked()
        member.send("one")
        assert other.receive().fields["hasMsg"] == "true"
    assert member.ask_notification(pollTime=0)["hasMsg"] == "true"
    assert read_bodies(member.pop(order="true")) == ["one"]
    assert member.ask_notification(pollTime=0, order="true") == {"hasMsg": "false", "pollingFull": "false"}


def test_in_order_the_progress_waits_before_what_the_filter_has_dropped(
    broker: RunningBroker, member: PopMember
) -> None:
    """As with Apache's broker: until the first message of the batch is acknowledged."""
    member.send("one", tags="blue")
    member.send("two", tags="red")
    response = member.pop(order="true", exp="red")
    assert (response.fields["startOffsetInfo"], response.fields["msgOffsetInfo"]) == ("0 0 0", "0 0 1")
    assert list(broker.consumer_offsets(GROUP, TOPIC).values()) == [0]
    member.ack(*member.list_receipts(response))
    assert list(broker.consumer_offsets(GROUP, TOPIC).values()) == [2]


def test_a_pop_scans_a_limited_number_of_messages(broker: RunningBroker, member: PopMember) -> None:
    """The next one goes on behind them."""
    blue = [Message(b"blue", "", tags="blue")] * SCAN_ENTRIES
    broker.send(TOPIC, *blue, Message(b"red", "", tags="red"))
    first = member.pop(exp="red")
    assert (first.code, first.fields["restNum"]) == (210, "1")
    assert read_bodies(member.pop(exp="red")) == ["red"]
