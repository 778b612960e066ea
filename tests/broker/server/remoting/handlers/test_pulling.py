"""Pulls of the remoting protocol, from the request to the response; codes, remarks and fields as 5.3.3 gave them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.admin.topics import put_topic
from rmqpull_broker.core.model import GroupConfig, Message, TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.pulling.consumer_offsets import ResetRequest, invoke_reset
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_client.transports.remoting.messages.stored_columns import decode_columns
from rmqpull_client.transports.remoting.messages.stored_messages import locate_records
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.heartbeats import GroupMembership, Subscription
from tests.harness.parking_watch import ParkingWatch
from tests.harness.remoting_member import RemotingMember

COMMIT, SUSPEND, SUBSCRIPTION, LITE = 1, 2, 4, 16
FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker({"orders": 2, "empty": 1}, remoting=True, clock="manual") as running:
        yield running


@pytest.fixture
def member(broker: RunningBroker) -> Iterator[RemotingMember]:
    with RemotingMember(broker.remoting_addresses[0]) as connected:
        yield connected


def pull_fields(**changed: Any) -> dict[str, Any]:
    """The fields of a pull from the start of ``orders/0``; those that are None are left out."""
    fields = {
        "consumerGroup": "billing",
        "topic": "orders",
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 32,
        "sysFlag": SUBSCRIPTION,
        "commitOffset": 0,
        "suspendTimeoutMillis": 15_000,
        "subscription": "*",
        "subVersion": 0,
    }
    return {name: value for name, value in {**fields, **changed}.items() if value is not None}


def pull(member: RemotingMember, code: int = RequestCode.PULL_MESSAGE, **changed: Any) -> RemotingCommand:
    return member.call(code, pull_fields(**changed))


def read_bodies(response: RemotingCommand) -> list[bytes]:
    body = bytes(response.body)
    table = locate_records(body, np.array([0]), np.array([len(body)]))
    assert table.damaged == ()
    return [each.as_py() for each in decode_columns(table, ["body"]).column("body")]


def send(broker: RunningBroker, *bodies: bytes, tags: str | None = None, **fields: Any) -> None:
    """Stores messages on ``orders/0``: the queues of a topic take turns, and the other queue gets one each time."""
    for body in bodies:
        broker.send("orders", Message(body, "", tags=tags, **fields), Message(b"other", ""))


# --- results ----------------------------------------------------------------------------------------------------------


@pytest.mark.proves("Replicas")
@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE])
def test_a_pull_returns_messages_and_the_next_offset(broker: RunningBroker, member: RemotingMember, code: int) -> None:
    send(broker, b"one", b"two", b"three")
    response = pull(member, code, queueOffset=1)
    assert read_bodies(response) == [b"two", b"three"]
    assert (response.code, response.remark) == (0, "FOUND")
    assert response.fields == {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "3",
        "minOffset": "0",
        "maxOffset": "3",
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }


@pytest.mark.parametrize(
    ("fields", "code", "remark", "next_offset"),
    [
        ({"topic": "empty"}, 19, "NO_MESSAGE_IN_QUEUE", 0),
        ({"topic": "empty", "queueOffset": 5}, 21, "NO_MESSAGE_IN_QUEUE", 0),
        ({"topic": "empty", "queueOffset": -1}, 21, "NO_MESSAGE_IN_QUEUE", 0),
        ({"queueOffset": 3}, 19, "OFFSET_OVERFLOW_ONE", 3),
        ({"queueOffset": 9}, 21, "OFFSET_OVERFLOW_BADLY", 3),
        ({"queueOffset": -1}, 21, "OFFSET_TOO_SMALL", 0),
        ({"subscription": "blue"}, 20, "NO_MATCHED_MESSAGE", 3),
        ({"subscription": "a = 1", "expressionType": "SQL92"}, 20, "NO_MATCHED_MESSAGE", 3),
        ({"maxMsgNums": 0}, 0, "FOUND", 1),
        ({"maxMsgNums": 2}, 0, "FOUND", 2),
        ({"subscription": "red"}, 0, "FOUND", 3),
        ({"subscription": None}, 0, "FOUND", 3),
        ({"subscription": "a >", "expressionType": "SQL92"}, 0, "FOUND", 3),
        ({"suspendTimeoutMillis": None, "commitOffset": None, "subVersion": None}, 0, "FOUND", 3),
        ({"bname": "other", "requestSource": 9, "maxMsgBytes": 1}, 0, "FOUND", 3),
    ],
)
def test_a_result_has_its_code_and_its_offset(
    broker: RunningBroker, member: RemotingMember, fields: dict[str, Any], code: int, remark: str, next_offset: int
) -> None:
    send(broker, b"one", b"two", b"three", tags="red")
    response = pull(member, **fields)
    assert (response.code, response.remark) == (code, remark)
    assert response.fields["nextBeginOffset"] == str(next_offset)


# --- refusals ---------------------------------------------------------------------------------------------------------


def member_name(member: RemotingMember) -> str:
    host, port = member._socket.getsockname()
    return f"/{host}:{port}"


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"topic": "nope"}, 17, f"topic[nope] not exist, apply first please! {FAQ}"),
        ({"consumerGroup": "g" * 256}, 26, f"subscription group [{'g' * 256}] does not exist, {FAQ}"),
        ({"queueId": -1}, 29, "queueId[-1] is illegal, topic:[orders] topicConfig.readQueueNums:[2] consumer:[{}]"),
        ({"subscription": "||"}, 23, "parse the consumer's subscription failed"),
        ({"sysFlag": 0}, 24, f"the consumer's group info not exist{FAQ}"),
        ({"queueOffset": None}, 1, "field queueOffset is missing in PullMessageRequestHeader, expected a number"),
        ({"queueOffset": "x"}, 1, "field queueOffset is 'x' in PullMessageRequestHeader, expected a number"),
        ({"sysFlag": COMMIT, "commitOffset": None}, 1, "field commitOffset is missing in PullMessageRequestHeader"),
        ({"sysFlag": SUSPEND, "suspendTimeoutMillis": None}, 1, "field suspendTimeoutMillis is missing in"),
        ({"sysFlag": 0, "subVersion": None}, 1, "field subVersion is missing in PullMessageRequestHeader"),
    ],
)
def test_a_refusal_has_a_code_and_a_remark_and_no_fields(
    member: RemotingMember, fields: dict[str, Any], code: int, remark: str
) -> None:
    response = pull(member, **fields)
    assert response.code == code
    assert (response.remark or "").startswith(remark.format(member_name(member)))
    assert response.fields == {}


@pytest.mark.parametrize(
    ("properties", "code", "fields", "remark", "forbidden_type"),
    [
        ({"broker_permission": 2}, 11, {}, "the broker[127.0.0.1] pulling message is forbidden", 1),
        (
            {"lite_pull_message_enable": False},
            361,
            {},
            "the broker[127.0.0.1] for lite pull consumer is forbidden",
            1,
        ),
        ({}, 11, {"consumerGroup": "closed"}, "subscription group no permission, closed", 2),
        ({}, 11, {"topic": "written"}, "the topic[written] pulling message is forbidden", 3),
    ],
)
def test_what_forbids_a_pull_is_told(
    properties: dict[str, Any], code: int, fields: dict[str, Any], remark: str, forbidden_type: int
) -> None:
    with running_broker({"orders": 1}, remoting=True, properties=BrokerProperties(**properties)) as broker:
        broker.change(lambda draft: put_group(draft, GroupConfig("closed", consume_enable=False)))
        broker.change(lambda draft: put_topic(draft, TopicConfig("written", 1, 1, perm=2)))
        with RemotingMember(broker.remoting_addresses[0]) as member:
            response = pull(member, code, **fields)
    assert (response.code, response.remark) == (16, remark)
    assert response.fields == {"forbiddenType": str(forbidden_type)}


def test_only_the_code_of_a_request_makes_it_a_lite_pull() -> None:
    with running_broker(
        {"orders": 1}, remoting=True, properties=BrokerProperties(lite_pull_message_enable=False)
    ) as broker:
        broker.send("orders", b"one")
        with RemotingMember(broker.remoting_addresses[0]) as member:
            assert pull(member, sysFlag=SUBSCRIPTION | LITE).code == 0
            assert pull(member, RequestCode.LITE_PULL_MESSAGE).code == 16


def test_a_pull_of_a_consumer_that_sent_no_heartbeat_can_be_rejected() -> None:
    with running_broker(
        {"orders": 1}, remoting=True, properties=BrokerProperties(reject_pull_consumer_enable=True)
    ) as broker:
        broker.send("orders", b"one")
        with RemotingMember(broker.remoting_addresses[0]) as member:
            refused = pull(member)
            member.beat("billing")
            assert (refused.code, pull(member).code) == (24, 0)


# --- the subscription of heartbeats -----------------------------------------------------------------------------------


def beat(member: RemotingMember, expression: str, version: int, expression_type: str = "TAG") -> None:
    subscription = Subscription("orders", expression, version, expression_type)
    member.beat(GroupMembership("billing", subscriptions=(subscription,)))


def test_a_pull_without_a_subscription_uses_that_of_the_groups_heartbeat(
    broker: RunningBroker, member: RemotingMember
) -> None:
    send(broker, b"one", tags="red")
    send(broker, b"two", tags="blue")
    beat(member, "blue", 7)
    assert read_bodies(pull(member, sysFlag=0, subscription=None, subVersion=7)) == [b"two"]
    assert pull(member, sysFlag=0, subVersion=8).code == 25
    assert pull(member, sysFlag=0, topic="empty").remark == f"the consumer's subscription not exist{FAQ}"
    beat(member, "red", 8)
    assert read_bodies(pull(member, sysFlag=0, subVersion=8)) == [b"one"]


def test_a_subscription_by_sql_needs_a_filter_that_is_new_enough(broker: RunningBroker, member: RemotingMember) -> None:
    send(broker, b"one", properties={"a": "1"})
    send(broker, b"two", properties={"a": "2"})
    beat(member, "a = 2", 7, "SQL92")
    assert read_bodies(pull(member, sysFlag=0, subVersion=7)) == [b"two"]
    beat(member, "", 8, "SQL92")
    assert pull(member, sysFlag=0, subVersion=8).code == 28
    beat(member, "a >", 9, "SQL92")
    assert pull(member, sysFlag=0, subVersion=9).code == 27


# --- offsets ----------------------------------------------------------------------------------------------------------


def committed(broker: RunningBroker) -> list[int]:
    fields = {"consumerGroup": "billing", "topic": "orders", "queueId": 0, "setZeroIfNotFound": "false"}
    with RemotingMember(broker.remoting_addresses[0]) as asking:
        response = asking.call(RequestCode.QUERY_CONSUMER_OFFSET, fields)
    return [int(response.fields["offset"])] if response.code == 0 else []


def test_a_pull_sets_the_consumer_offset_that_it_brings(broker: RunningBroker, member: RemotingMember) -> None:
    send(broker, b"one", b"two", b"three")
    pull(member, commitOffset=1)
    assert committed(broker) == []
    pull(member, sysFlag=SUBSCRIPTION | COMMIT, commitOffset=2)
    assert committed(broker) == [2]
    pull(member, sysFlag=SUBSCRIPTION | COMMIT, commitOffset=1, queueOffset=9)
    assert committed(broker) == [1]
    pull(member, sysFlag=SUBSCRIPTION | COMMIT, commitOffset=3, topic="nope")
    assert committed(broker) == [1]


def test_the_first_pull_after_a_reset_is_told_its_offset(broker: RunningBroker, member: RemotingMember) -> None:
    send(broker, b"one", b"two", b"three")
    pull(member)
    broker.change(lambda draft: invoke_reset(draft, ResetRequest("billing", "orders", timestamp_ms=0)))
    reset, found = pull(member, queueOffset=2), pull(member, queueOffset=2)
    assert (reset.code, reset.remark, reset.fields["nextBeginOffset"]) == (21, "OFFSET_RESET", "0")
    assert (found.code, found.fields["nextBeginOffset"]) == (0, "3")


# --- parking ----------------------------------------------------------------------------------------------------------

WAIT = SUBSCRIPTION | SUSPEND


def start_pull(member: RemotingMember, watch: ParkingWatch, **changed: Any) -> None:
    """Sends a pull, and waits until it is parked."""
    member.start(RequestCode.PULL_MESSAGE, pull_fields(sysFlag=WAIT, **changed))
    watch.await_parked()


def test_a_parked_pull_returns_when_a_message_arrives(
    broker: RunningBroker, member: RemotingMember, parking_watch: ParkingWatch
) -> None:
    start_pull(member, parking_watch)
    send(broker, b"one")
    assert read_bodies(member.receive()) == [b"one"]


@pytest.mark.parametrize(("timeout_ms", "waits_s"), [(0, 5), (1, 5), (5_000, 5), (5_001, 10), (15_000, 15)])
def test_a_parked_pull_ends_at_the_first_check_after_its_timeout(
    broker: RunningBroker, member: RemotingMember, parking_watch: ParkingWatch, timeout_ms: int, waits_s: int
) -> None:
    start_pull(member, parking_watch, suspendTimeoutMillis=timeout_ms)
    broker.clock.advance(ms=waits_s * 1_000 - 1)
    assert parking_watch.left.empty()
    broker.clock.advance(ms=1)
    ended = member.receive()
    assert (ended.code, ended.remark) == (19, "NO_MESSAGE_IN_QUEUE")


def test_a_parked_pull_learns_at_the_next_check_that_it_need_not_read_other_messages(
    broker: RunningBroker, member: RemotingMember, parking_watch: ParkingWatch
) -> None:
    start_pull(member, parking_watch, subscription="blue")
    send(broker, b"one", tags="red")
    broker.clock.advance(ms=4_999)
    assert parking_watch.left.empty()
    broker.clock.advance(ms=1)
    ended = member.receive()
    assert (ended.code, ended.fields["nextBeginOffset"]) == (20, "1")


def test_a_parked_pull_commits_only_before_it_parks(
    broker: RunningBroker, member: RemotingMember, parking_watch: ParkingWatch
) -> None:
    send(broker, b"one")
    member.start(RequestCode.PULL_MESSAGE, pull_fields(sysFlag=WAIT | COMMIT, commitOffset=1, queueOffset=1))
    parking_watch.await_parked()
    assert committed(broker) == [1]
    with RemotingMember(broker.remoting_addresses[0]) as other:
        pull(other, sysFlag=SUBSCRIPTION | COMMIT, commitOffset=0)
    send(broker, b"two")
    assert read_bodies(member.receive()) == [b"two"]
    assert committed(broker) == [0]


def test_a_parked_pull_is_checked_again_when_its_time_is_over(
    broker: RunningBroker, member: RemotingMember, parking_watch: ParkingWatch
) -> None:
    """The deletion of its topic does not wake it, as on a real 5.3.3."""
    start_pull(member, parking_watch, suspendTimeoutMillis="9000")
    broker.delete_topic("orders")
    broker.clock.advance(seconds=6)
    assert parking_watch.left.empty()
    broker.clock.advance(seconds=14)
    assert member.receive().code == 17


def test_an_arrival_that_does_not_match_answers_a_pull_whose_time_is_over(
    broker: RunningBroker, member: RemotingMember, parking_watch: ParkingWatch
) -> None:
    start_pull(member, parking_watch, suspendTimeoutMillis="1", subscription="blue")
    broker.clock.advance(ms=2)
    send(broker, b"one")
    assert member.receive().code == 20


def test_a_response_has_the_flag_of_its_group(broker: RunningBroker, member: RemotingMember) -> None:
    group = {"groupName": "readers", "groupSysFlag": 5}
    body = json.dumps(group).encode()
    assert member.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body).code == 0
    found = pull(member, consumerGroup="readers")
    assert (found.fields["groupSysFlag"], found.fields["topicSysFlag"]) == ("5", "0")


def test_a_parked_pull_of_a_closed_connection_is_dropped(
    broker: RunningBroker, member: RemotingMember, parking_watch: ParkingWatch
) -> None:
    start_pull(member, parking_watch)
    member.close()
    parking_watch.await_left()
    with RemotingMember(broker.remoting_addresses[0]) as other:
        assert pull(other).code == 19


def test_without_long_polling_a_pull_waits_for_the_short_time() -> None:
    properties = BrokerProperties(long_polling_enable=False, short_polling_time_mills=1)
    with (
        running_broker({"orders": 1}, remoting=True, properties=properties) as broker,
        RemotingMember(broker.remoting_addresses[0]) as member,
    ):
        assert pull(member, sysFlag=WAIT, suspendTimeoutMillis=60_000).code == 19
