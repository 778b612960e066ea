"""Members of groups over the remoting protocol: heartbeats, lists, notices, and who leaves (rules 3.6, 3.7)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.server.limits import HEARTBEAT_GROUPS_MAX, HEARTBEAT_TOPICS_MAX
from rmqpull_broker.server.remoting.handlers import clients
from rmqpull_broker.server.remoting.wire.queue_bodies import LockRequest, QueueOfBroker, decode_locked
from rmqpull_broker.server.runtime.slices import Slice, Slices
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.heartbeats import GroupMembership, HeartbeatData
from rmqpull_proto.remoting.json_dialect import read_json, write_json
from tests.harness.remoting_member import RemotingMember, make_membership
from tests.harness.rpc_client import Connect, OpenTelemetryStream


class Members:
    """Opens connections of clients to one broker."""

    def __init__(self, broker: RunningBroker, opened: ExitStack) -> None:
        self.broker = broker
        self._opened = opened

    def open(self, client_id: str, *groups: str, index: int = 0) -> RemotingMember:
        """Connects a client, to the broker of that index, and sends its first heartbeat."""
        member = self._opened.enter_context(RemotingMember(self.broker.remoting_addresses[index], client_id))
        if groups:
            member.beat(*groups)
        return member


@pytest.fixture
def members() -> Iterator[Members]:
    with running_broker({"orders": 2}, remoting=True, clock="manual") as broker, ExitStack() as opened:
        yield Members(broker, opened)


# --- heartbeats -------------------------------------------------------------------------------------------------------


def test_a_heartbeat_creates_its_group_and_the_retry_topic(members: Members) -> None:
    fields = members.open("ann").beat("readers", producer_groups=("writers",))
    assert fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    assert members.broker.look(lambda state: (list(state.groups), list(state.topics))) == (
        ["readers"],
        ["orders", "%RETRY%readers"],
    )


def test_others_have_turns_while_the_subscriptions_of_a_heartbeat_are_read(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[None] = []

    class ShortSlice(Slice):
        """A slice that is over at once."""

        @property
        def is_over(self) -> bool:
            return True

    async def pause(slices: Slices) -> None:
        pauses.append(None)

    monkeypatch.setattr(clients, "Slice", ShortSlice)
    monkeypatch.setattr(Slices, "pause", pause)
    members.open("ann").beat(make_membership("readers", *(f"topic-{number}" for number in range(20))))
    assert len(pauses) == 20
    assert members.broker.look(lambda state: list(state.groups)) == ["readers"]


@pytest.mark.parametrize(
    ("group", "is_member"),
    [("", False), ("x" * 120, True), ("x" * 121, False), ("a.b", False), ("CID_RMQ_SYS_a", True)],
)
def test_names_of_groups_are_judged_as_a_broker_does(members: Members, group: str, is_member: bool) -> None:
    expected = ["ann"] if is_member else f"no consumer for this group, {group}"
    assert members.open("ann", group).list_members(group) == expected


def test_a_heartbeat_with_a_fingerprint_says_whether_subscriptions_changed(members: Members) -> None:
    ann = members.open("ann")
    fingerprints = (0, 7, 7, 8, 8, 0)
    answers = [ann.beat("readers", fingerprint=fingerprint)["IS_SUB_CHANGE"] for fingerprint in fingerprints]
    assert answers == ["true", "true", "false", "true", "false", "true"]


def test_a_heartbeat_without_subscriptions_leaves_them_as_they_are(members: Members) -> None:
    ann, bob = members.open("ann", "readers"), members.open("bob", "readers")
    bob.list_notices()
    bob.beat(make_membership("readers", "others"), fingerprint=7, without_sub=True)
    assert bob.list_notices() == []
    bob.beat(make_membership("readers", "others"), fingerprint=7)
    assert ann.list_notices()[-1:] == bob.list_notices() == ["readers"]


def test_a_consumer_that_pulls_is_no_member_while_such_consumers_are_rejected() -> None:
    properties = BrokerProperties(reject_pull_consumer_enable=True)
    with running_broker({"orders": 2}, remoting=True, properties=properties) as broker, ExitStack() as opened:
        ann = Members(broker, opened).open("ann")
        ann.beat(make_membership("pullers", consume_type="CONSUME_ACTIVELY"), "readers")
        assert ann.list_members("pullers") == "no consumer for this group, pullers"
        assert ann.list_members("readers") == ["ann"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"consumerDataSet":3}', b'{"consumerDataSet":[1]}'])
def test_a_body_that_is_no_heartbeat_is_refused(members: Members, body: bytes) -> None:
    ann = members.open("ann")
    assert ann.call(RequestCode.HEART_BEAT, body=body).code == ResponseCode.SYSTEM_ERROR
    assert ann.beat("readers")


@pytest.mark.parametrize(
    "groups",
    [
        [f"group-{number}" for number in range(HEARTBEAT_GROUPS_MAX + 1)],
        [make_membership("readers", *(f"topic-{number}" for number in range(HEARTBEAT_TOPICS_MAX + 1)))],
    ],
    ids=["groups", "topics"],
)
def test_a_heartbeat_that_is_too_large_creates_nothing(members: Members, groups: list[str | GroupMembership]) -> None:
    consumers = tuple(make_membership(each) if isinstance(each, str) else each for each in groups)
    response = members.open("ann").call(RequestCode.HEART_BEAT, body=HeartbeatData("ann", consumers).encode())
    assert response.code == ResponseCode.INVALID_PARAMETER
    assert members.broker.look(lambda state: list(state.groups)) == []


def test_each_broker_has_its_own_members() -> None:
    with running_broker({"orders": 2}, remoting=True, brokers=("a", "b")) as broker, ExitStack() as opened:
        members = Members(broker, opened)
        on_a, on_b = (members.open("ann", "readers", index=index) for index in (0, 1))
        on_a.close()
        assert members.open("bob", index=1).list_members("readers") == ["ann"]
        on_b.beat("readers")


# --- notices ----------------------------------------------------------------------------------------------------------


def test_members_learn_who_comes_and_who_goes(members: Members) -> None:
    ann = members.open("ann", "readers")
    assert ann.list_notices() == ["readers"]  # of ann herself
    bob, eve = members.open("bob", "readers"), members.open("eve", "readers")
    assert ann.list_notices() == ["readers", "readers"]
    bob.call(RequestCode.UNREGISTER_CLIENT, {"clientID": "bob", "consumerGroup": "readers"})
    assert ann.list_notices() == ["readers"]
    assert ann.list_members("readers") == ["ann", "eve"]
    eve.close()
    assert ann.receive().fields == {"consumerGroup": "readers"}
    assert ann.list_members("readers") == ["ann"]


def test_a_heartbeat_that_changes_nothing_notifies_nobody(members: Members) -> None:
    ann = members.open("ann", "readers")
    ann.list_notices()
    ann.beat("readers")
    assert ann.list_notices() == []


def test_a_client_that_is_no_member_notifies_the_members_when_it_unregisters(members: Members) -> None:
    ann, stranger = members.open("ann", "readers"), members.open("stranger")
    ann.list_notices()
    stranger.call(RequestCode.UNREGISTER_CLIENT, {"clientID": "ann", "consumerGroup": "readers"})
    assert ann.list_notices() == ["readers"]
    assert ann.list_members("readers") == ["ann"]


def test_members_that_all_get_all_messages_are_not_notified(members: Members) -> None:
    ann, bob = members.open("ann"), members.open("bob")
    for member in (ann, bob):
        member.beat(make_membership("listeners", message_model="BROADCASTING"))
    bob.close()
    assert ann.list_notices() == []


def test_a_group_without_notices_only_hears_of_connections_that_close(members: Members) -> None:
    quiet = GroupConfig("readers", notify_consumer_ids_changed_enable=False)
    members.broker.change(lambda draft: put_group(draft, quiet))
    ann, bob, eve = (members.open(name, "readers") for name in ("ann", "bob", "eve"))
    bob.call(RequestCode.UNREGISTER_CLIENT, {"clientID": "bob", "consumerGroup": "readers"})
    assert ann.list_notices() == []
    eve.close()
    assert ann.receive().fields == {"consumerGroup": "readers"}


def test_a_broker_without_notices_sends_none() -> None:
    properties = BrokerProperties(notify_consumer_ids_changed_enable=False)
    with running_broker({"orders": 2}, remoting=True, properties=properties) as broker, ExitStack() as opened:
        members = Members(broker, opened)
        ann, bob = members.open("ann", "readers"), members.open("bob", "readers")
        bob.call(RequestCode.UNREGISTER_CLIENT, {"clientID": "bob", "consumerGroup": "readers"})
        assert ann.list_notices() == []


def test_members_of_both_protocols_are_one_group(
    members: Members, connect: Connect, open_telemetry_stream: OpenTelemetryStream
) -> None:
    ann = members.open("ann", "readers")
    ann.list_notices()
    bob = connect(members.broker.endpoints, client_id="bob")
    open_telemetry_stream(bob, "PULL_CONSUMER", "orders", group="readers")
    assert ann.list_notices() == ["readers"]
    assert ann.list_members("readers") == ["ann", "bob"]
    bob.call("NotifyClientTermination", service.NotifyClientTerminationRequest(group=v2.Resource(name="readers")))
    assert ann.list_notices()
    assert ann.list_members("readers") == ["ann"]


# --- expiry -----------------------------------------------------------------------------------------------------------


def test_a_client_without_heartbeats_is_disconnected_after_two_minutes_and_nobody_is_told(members: Members) -> None:
    ann, bob = members.open("ann", "readers"), members.open("bob", "readers", "others")
    for _ in range(12):
        members.broker.clock.advance(10_000)
        ann.beat("readers")
        bob.list_members("readers")  # so that the connection is not idle, which others would be told
    assert ann.list_members("readers") == ["ann", "bob"]  # 120 s are not more than 120 s
    ann.list_notices()
    members.broker.clock.advance(10_000)
    assert bob.is_closed()
    assert ann.list_members("readers") == ["ann"]
    assert ann.list_members("others") == "no consumer for this group, others"
    assert ann.list_notices() == []


def test_a_client_that_expires_in_one_group_leaves_the_others_and_their_members_are_told(members: Members) -> None:
    ann, bob = members.open("ann", "readers", "others"), members.open("bob", "others")
    for _ in range(12):
        members.broker.clock.advance(10_000)
        ann.beat("others")
        bob.beat("others")
    bob.list_notices()
    members.broker.clock.advance(10_000)
    assert ann.is_closed()
    assert bob.receive().fields == {"consumerGroup": "others"}
    assert bob.list_members("others") == ["bob"]


def test_a_client_that_was_disconnected_registers_again(members: Members) -> None:
    old = members.open("ann", "readers")
    members.broker.clock.advance(130_000)
    assert old.is_closed()
    assert members.open("ann", "readers").list_members("readers") == ["ann"]


def test_a_producer_expires_too(members: Members) -> None:
    writer = members.open("ann")
    writer.beat(producer_groups=("writers",))
    members.broker.clock.advance(130_000)
    assert writer.is_closed()


# --- assignments ------------------------------------------------------------------------------------------------------


def ask_for_queues(member: RemotingMember, **fields: str) -> list[int] | None:
    given = {"topic": "orders", "consumerGroup": "readers", "clientId": "ann", "strategyName": "AVG", **fields}
    body = write_json({"messageModel": "CLUSTERING", **given})
    response = member.call(RequestCode.QUERY_ASSIGNMENT, body=body)
    assert response.code == 0, response
    found = read_json(response.body).get("messageQueueAssignments")
    assert found is None or all(each["mode"] == "PULL" for each in found)
    return None if found is None else [each["messageQueue"]["queueId"] for each in found]


def test_the_broker_shares_the_queues_if_a_client_leaves_that_to_it(members: Members) -> None:
    ann = members.open("ann", "readers")
    assert ask_for_queues(ann) == [0, 1]
    members.open("bob", "readers")
    assert [ask_for_queues(ann, clientId=name) for name in ("ann", "bob", "eve")] == [[0], [1], []]
    assert ask_for_queues(ann, messageModel="BROADCASTING") == [0, 1]


def test_a_group_that_shall_pop_gets_all_queues_of_each_broker(members: Members) -> None:
    ann = members.open("ann", "readers")
    mode = {"topic": "orders", "consumerGroup": "readers", "mode": "POP", "popShareQueueNum": 0}
    assert ann.call(RequestCode.SET_MESSAGE_REQUEST_MODE, body=write_json(mode)).code == 0
    body = {"topic": "orders", "consumerGroup": "readers", "clientId": "ann", "strategyName": "AVG"}
    response = ann.call(RequestCode.QUERY_ASSIGNMENT, body=write_json(body | {"messageModel": "CLUSTERING"}))
    queue = {"brokerName": "broker-a", "queueId": -1, "topic": "orders"}
    assert read_json(response.body) == {"messageQueueAssignments": [{"messageQueue": queue, "mode": "POP"}]}
    assert ask_for_queues(ann, consumerGroup="nobody") is None
    response = ann.call(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    assert read_json(response.body) == {"messageRequestModeMap": {"orders": {"readers": mode}}}


@pytest.mark.parametrize("fields", [{"topic": "unknown"}, {"consumerGroup": "nobody"}, {"strategyName": "CONFIG"}])
def test_without_an_assignment_a_client_keeps_what_it_has(members: Members, fields: dict[str, str]) -> None:
    assert ask_for_queues(members.open("ann", "readers"), **fields) is None


def test_a_query_without_a_message_model_is_refused(members: Members) -> None:
    response = members.open("ann").call(RequestCode.QUERY_ASSIGNMENT, body=b'{"topic":"orders"}')
    assert response.code == ResponseCode.SYSTEM_ERROR


# --- filters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expression", "code"),
    [
        ("TAG", "a || b", 0),
        ("TAG", "||", 0),
        ("SQL92", "a > 3", 0),
        ("SQL92", "a >", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ("sql92", "a > 3", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    ],
)
def test_a_filter_is_judged_before_it_is_used(members: Members, kind: str, expression: str, code: int) -> None:
    subscription = {"topic": "orders", "expressionType": kind, "subString": expression, "subVersion": 1}
    body = write_json({"clientId": "ann", "group": "readers", "namespace": "", "subscriptionData": subscription})
    assert members.open("ann").call(RequestCode.CHECK_CLIENT_CONFIG, body=body).code == code


def test_without_a_subscription_there_is_nothing_to_judge(members: Members) -> None:
    ann = members.open("ann")
    assert [ann.call(RequestCode.CHECK_CLIENT_CONFIG, body=body).code for body in (b"", b"{}")] == [0, 0]


# --- locks ------------------------------------------------------------------------------------------------------------

FIRST, SECOND = (QueueOfBroker("orders", "broker-a", queue_id) for queue_id in (0, 1))


def lock(member: RemotingMember, *queues: QueueOfBroker) -> tuple[QueueOfBroker, ...]:
    body = LockRequest("readers", member.client_id, queues).encode()
    return decode_locked(member.call(RequestCode.LOCK_BATCH_MQ, body=body).body)


def test_a_queue_is_locked_by_one_client_until_it_unlocks_or_is_silent_for_a_minute(members: Members) -> None:
    ann, bob = members.open("ann"), members.open("bob")
    assert lock(ann, FIRST) == (FIRST,)
    assert lock(bob, FIRST, SECOND) == (SECOND,)
    assert lock(ann, FIRST, SECOND) == (FIRST,)
    bob.call(RequestCode.UNLOCK_BATCH_MQ, body=LockRequest("readers", "bob", (FIRST, SECOND)).encode())
    assert lock(ann, FIRST, SECOND) == (FIRST, SECOND)
    members.broker.clock.advance(60_000)
    assert lock(bob, FIRST) == ()
    members.broker.clock.advance(1)
    assert lock(bob, FIRST) == (FIRST,)
