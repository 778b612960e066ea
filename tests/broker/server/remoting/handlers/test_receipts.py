"""Acknowledgements and changes of the invisible time, over the remoting protocol, as 5.3.3 answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rmqpull_broker.server.remoting.wire.pop_bodies import BatchAck
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode
from tests.harness.remoting_pops import GROUP, TOPIC, PopMember, encode_batch_acks, read_bodies

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
RECEIPT = "0 1700000000000 60000 3 0 broker-a 0 0"
UNSET = "not set any response code"
NO_QUEUE = "queueId[1] is illegal, topic:[orders] topicConfig.readQueueNums:[1] consumer:[/ME]"


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker({TOPIC: 1}, remoting=True, clock="manual") as running:
        yield running


@pytest.fixture
def member(broker: RunningBroker) -> Iterator[PopMember]:
    with PopMember(broker) as connected:
        connected.send("one", "two", "three")
        yield connected


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({}, 0, ""),  # not in flight
        ({"offset": 3}, 0, ""),
        ({"topic": "unknown"}, 17, f"topic[unknown] not exist, apply first please! {FAQ}"),
        ({"queueId": 1}, 13, NO_QUEUE),
        ({"offset": 4}, 208, "offset is illegal, key:orders@0, commit:4, store:0~3"),
        ({"extraInfo": "0 1 2"}, 1, None),
    ],
)
def test_places_of_acknowledgements(member: PopMember, fields: dict[str, Any], code: int, remark: str | None) -> None:
    response = member.ack(RECEIPT, **fields)
    assert response.code == code
    assert remark is None or member.hide_address(response) == remark


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"topic": "unknown"}, 17, f"topic[unknown] not exist, apply first please! {FAQ}"),
        ({"queueId": 1}, 13, NO_QUEUE),
        ({"offset": 3}, 208, UNSET),
    ],
)
def test_places_of_changes(member: PopMember, fields: dict[str, Any], code: int, remark: str) -> None:
    response = member.change(RECEIPT, 1_000, **fields)
    assert (response.code, member.hide_address(response)) == (code, remark)
    assert response.fields == {"popTime": "0", "invisibleTime": "0", "reviveQid": "0"}


def test_a_changed_message_is_redelivered_at_its_new_time(broker: RunningBroker, member: PopMember) -> None:
    first = member.pop(maxMsgNums=1)
    (receipt,) = member.list_receipts(first)
    broker.clock.advance(20_000)
    changed = member.change(receipt, 90_000)
    assert (changed.code, changed.remark) == (0, UNSET)
    assert changed.fields == {
        "popTime": str(broker.clock.now_ms()),
        "invisibleTime": "90000",
        "reviveQid": first.fields["reviveQid"],
    }
    assert read_bodies(member.pop()) == ["two", "three"]
    broker.clock.advance(60_000)
    assert read_bodies(member.pop()) == ["two", "three"]
    broker.clock.advance(30_000)
    assert read_bodies(member.pop()) == ["one"]


@pytest.mark.proves("A change of the invisible time of a message that is not in flight")
def test_a_change_after_the_acknowledgement_brings_nothing_back(broker: RunningBroker, member: PopMember) -> None:
    (receipt,) = member.list_receipts(member.pop(maxMsgNums=1))
    member.ack(receipt)
    assert member.change(receipt, 1_000).code == 0
    member.pop(invisibleTime=600_000)
    broker.clock.advance(60_000)
    assert member.pop().code == 210


def make_acks(member: PopMember, *offsets: int, **fields: Any) -> BatchAck:
    popped = member.pop(**fields).fields
    revive, pop_time = int(popped["reviveQid"]), int(popped["popTime"])
    return BatchAck(GROUP, TOPIC, "0", 0, 0, revive, pop_time, 60_000, offsets)


@pytest.mark.parametrize("order", ["false", "true"])
def test_many_acknowledgements_at_once(broker: RunningBroker, member: PopMember, order: str) -> None:
    acks = make_acks(member, 0, 1, 99, order=order)
    assert member.call(RequestCode.BATCH_ACK_MESSAGE, body=encode_batch_acks("broker-a", [acks])).code == 0
    broker.clock.advance(60_000)
    assert read_bodies(member.pop(order=order)) == ["three"]


@pytest.mark.parametrize("body", [b"", b"{}", b'{"acks":[]}'])
def test_a_request_without_acknowledgements(member: PopMember, body: bytes) -> None:
    assert member.call(RequestCode.BATCH_ACK_MESSAGE, body=body).code == 208


def test_acknowledgements_of_an_unknown_topic_are_skipped(member: PopMember) -> None:
    acks = make_acks(member, 0)._replace(topic="unknown")
    assert member.call(RequestCode.BATCH_ACK_MESSAGE, body=encode_batch_acks("broker-a", [acks])).code == 0


def test_in_order_an_acknowledgement_must_belong_to_the_batch(member: PopMember) -> None:
    (receipt, _) = member.list_receipts(member.pop(order="true", maxMsgNums=2))
    response = member.ack(receipt, offset=2)
    expected = "offset is illegal, key:orders@readers@0, old:0, commit:2, next:-1, /ME"
    assert (response.code, member.hide_address(response)) == (13, expected)
    assert member.ack(receipt.replace(receipt.split(" ")[1], "5")).code == 0  # of another pop: nothing changes
    assert member.pop(order="true").code == 210
    assert member.ack(receipt).code == 0
    assert member.ack(receipt).code == 0  # behind the progress


def test_in_order_a_change_keeps_the_time_of_the_pop(broker: RunningBroker, member: PopMember) -> None:
    first = member.pop(order="true", maxMsgNums=1)
    (receipt,) = member.list_receipts(first)
    broker.clock.advance(20_000)
    changed = member.change(receipt, 5_000)
    assert changed.fields == {"popTime": first.fields["popTime"], "invisibleTime": "25000", "reviveQid": "999"}
    broker.clock.advance(5_000)
    assert read_bodies(member.pop(order="true", maxMsgNums=1)) == ["one"]
    member.ack(member.list_receipts(first)[0])  # of the first pop: too late
    assert member.change(receipt, 5_000).code == 0


def test_acknowledgements_of_unknown_groups_take_no_memory(broker: RunningBroker, member: PopMember) -> None:
    for number in range(3):
        assert member.ack(RECEIPT, consumerGroup=f"unknown-{number}").code == 0
    assert list(broker._server.metrics.acknowledged) == []
