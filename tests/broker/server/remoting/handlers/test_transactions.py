"""Transactions over the remoting protocol: half messages, their ends, and checks (rules 3.15)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rmqpull_broker.core.model import TopicType
from rmqpull_broker.server.remoting.wire.message_ids import parse_offset_msg_id
from rmqpull_broker.testing import RunningBroker, Topics, running_broker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.properties import encode_properties
from tests.harness.remoting_member import RemotingMember

UNKNOWN, COMMIT, ROLLBACK = 0, 8, 12
BORN_MS = 1_700_000_000_000
BROKERS = ("broker-a", "broker-b")


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    topics: Topics = {"payments": (1, TopicType.TRANSACTION)}
    with running_broker(topics, brokers=BROKERS, remoting=True, clock="manual") as running:
        yield running


@pytest.fixture
def producer(broker: RunningBroker) -> Iterator[RemotingMember]:
    """A producer of group "cashiers" that is connected to the first broker."""
    with RemotingMember(broker.remoting_addresses[0], "ann") as member:
        member.beat(producer_groups=("cashiers",))
        yield member


def send_half(broker: RunningBroker, producer: RemotingMember, **properties: str) -> dict[str, Any]:
    """Sends a half message, and returns the fields that end it with a commit."""
    text = encode_properties({"UNIQ_KEY": "ID", "TRAN_MSG": "true", "PGROUP": "cashiers", **properties})
    values = ("cashiers", "payments", "TBW102", 4, 0, 4, broker.clock.now_ms(), 0, text, 0, "false")
    response = producer.call(RequestCode.SEND_MESSAGE_V2, dict(zip("abcdefghijk", values, strict=True)), b"paid")
    assert response.code == 0, response
    return {
        "producerGroup": "cashiers",
        "tranStateTableOffset": response.fields["queueOffset"],
        "commitLogOffset": parse_offset_msg_id(response.fields["msgId"]).physical_offset,
        "commitOrRollback": COMMIT,
        "msgId": "ID",
    }


def end(producer: RemotingMember, half: dict[str, Any], **others: Any) -> RemotingCommand:
    return producer.call(RequestCode.END_TRANSACTION, {**half, **others})


def end_and_forget(broker: RunningBroker, producer: RemotingMember, half: dict[str, Any], **others: Any) -> None:
    """Ends a transaction as Java's producer does: one-way. Returns when it is ended."""
    producer.start(RequestCode.END_TRANSACTION, {**half, **others}, is_oneway=True)
    producer.list_members("no such group")  # the broker has the request,
    broker.change(lambda draft: None)  # and has stored what it does


def readable(broker: RunningBroker) -> list[bytes]:
    return [row.message.body for row in broker.messages("payments")]


def count_waiting(broker: RunningBroker) -> int:
    return broker.look(lambda state: len(state.halves))


@pytest.mark.parametrize(
    ("outcome", "bodies", "waiting"), [(COMMIT, [b"paid"], 0), (ROLLBACK, [], 0), (UNKNOWN, [], 1)]
)
def test_the_producer_decides_on_its_half_message(
    broker: RunningBroker, producer: RemotingMember, outcome: int, bodies: list[bytes], waiting: int
) -> None:
    half = send_half(broker, producer)
    assert readable(broker) == []
    end_and_forget(broker, producer, half, commitOrRollback=outcome)
    assert (readable(broker), count_waiting(broker)) == (bodies, waiting)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"commitLogOffset": 7}, "Find prepared transaction message failed"),
        ({"producerGroup": "others"}, "The producer group wrong"),
        ({"tranStateTableOffset": 99}, "The transaction state table offset wrong"),
    ],
)
def test_ends_that_do_not_fit_are_refused(
    broker: RunningBroker, producer: RemotingMember, fields: dict[str, Any], words: str
) -> None:
    response = end(producer, send_half(broker, producer), **fields)
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, words)
    assert count_waiting(broker) == 1


@pytest.mark.proves("A second end of the same half message (END_TRANSACTION)")
def test_a_half_message_is_ended_once(broker: RunningBroker, producer: RemotingMember) -> None:
    half = send_half(broker, producer)
    assert end(producer, half).code == 0
    assert end(producer, half).remark == "Find prepared transaction message failed"
    assert readable(broker) == [b"paid"]


def test_an_end_is_for_the_broker_that_has_the_half_message(broker: RunningBroker, producer: RemotingMember) -> None:
    half = send_half(broker, producer)
    with RemotingMember(broker.remoting_addresses[1]) as elsewhere:
        assert end(elsewhere, half).remark == "Find prepared transaction message failed"
    assert end(producer, half).code == 0


def test_a_message_that_was_sent_is_no_half_message(broker: RunningBroker, producer: RemotingMember) -> None:
    half = send_half(broker, producer)
    end_and_forget(broker, producer, half)
    place = broker.look(
        lambda state: state.physical_offsets.find(next(iter(state.queues(state.require_topic("payments"), 1))), 0)
    )
    assert end(producer, half, commitLogOffset=place).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(("from_check", "code"), [("false", ResponseCode.ILLEGAL_OPERATION), ("true", 0)])
def test_only_a_check_allows_an_end_after_the_immunity_of_a_message(
    broker: RunningBroker, producer: RemotingMember, from_check: str, code: int
) -> None:
    half = send_half(broker, producer, CHECK_IMMUNITY_TIME_IN_SECONDS="10")
    broker.clock.advance(ms=10_001)
    assert end(producer, half, fromTransactionCheck=from_check).code == code


def test_a_short_immunity_lasts_as_long_as_the_timeout_of_transactions(
    broker: RunningBroker, producer: RemotingMember
) -> None:
    half = send_half(broker, producer, CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    broker.clock.advance(ms=6_000)
    assert end(producer, half).code == 0


def test_a_producer_is_asked_about_its_half_message_and_ends_it(
    broker: RunningBroker, producer: RemotingMember
) -> None:
    send_half(broker, producer)
    broker.clock.advance(seconds=31)
    check = producer.receive()
    assert (check.code, check.is_oneway) == (RequestCode.CHECK_TRANSACTION_STATE, True)
    assert {name: check.fields[name] for name in ("msgId", "transactionId", "tranStateTableOffset", "bname")} == {
        "msgId": "ID",
        "transactionId": "ID",
        "tranStateTableOffset": "1",
        "bname": "broker-a",
    }
    assert b"paid" in bytes(check.body)
    assert b"PGROUP\x01cashiers" in bytes(check.body)
    answer = {
        "producerGroup": "cashiers",
        "tranStateTableOffset": check.fields["tranStateTableOffset"],
        "commitLogOffset": check.fields["commitLogOffset"],
        "commitOrRollback": COMMIT,
        "fromTransactionCheck": "true",
        "msgId": "ID",
    }
    end_and_forget(broker, producer, answer)
    assert (readable(broker), count_waiting(broker)) == ([b"paid"], 0)


def test_the_first_place_of_a_checked_message_still_ends_it(broker: RunningBroker, producer: RemotingMember) -> None:
    half = send_half(broker, producer)
    broker.clock.advance(seconds=31)
    assert end(producer, half).code == 0
    assert readable(broker) == [b"paid"]


def test_a_producer_of_another_broker_is_not_asked(broker: RunningBroker) -> None:
    with RemotingMember(broker.remoting_addresses[0]) as sender, RemotingMember(broker.remoting_addresses[1]) as other:
        other.beat(producer_groups=("cashiers",))
        send_half(broker, sender)
        broker.clock.advance(seconds=31)
        other.list_members("no such group")
        assert other.list_notices() == []  # no command has arrived
