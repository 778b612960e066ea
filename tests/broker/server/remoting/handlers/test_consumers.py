"""What a broker asks of consumers, forwards to them, and takes back from them (rules 3.5.3, 3.10.3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from rmqpull_broker.core.model import Message, MessageQueue
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.server.remoting.handlers import consumers
from rmqpull_broker.server.remoting.wire.message_ids import make_offset_msg_id, parse_offset_msg_id
from rmqpull_broker.server.remoting.wire.queue_bodies import QueueOfBroker, decode_offsets, encode_consumer_status
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.remoting_member import RemotingMember, make_membership
from tests.harness.waiting import WAIT_S

QUEUES = [MessageQueue("orders", "broker-a", queue_id) for queue_id in (0, 1)]
SUSPEND, SUBSCRIPTION = 2, 4
RETRY, DEAD = MessageQueue("%RETRY%readers", "broker-a", 0), MessageQueue("%DLQ%readers", "broker-a", 0)


class Office:
    """A broker with topic ``orders``, an administrator, and members that come and go."""

    def __init__(self, broker: RunningBroker, opened: ExitStack) -> None:
        self.broker = broker
        self._opened = opened
        self._admin = self.connect("admin")
        self._threads = opened.enter_context(ThreadPoolExecutor(1))

    def connect(self, client_id: str, *groups: str) -> RemotingMember:
        member = self._opened.enter_context(RemotingMember(self.broker.remoting_addresses[0], client_id))
        if groups:
            member.beat(*groups)
            member.list_notices()
        return member

    def ask(self, code: RequestCode, **fields: Any) -> RemotingCommand:
        return self._admin.call(code, fields)

    def start(self, code: RequestCode, **fields: Any) -> Future[RemotingCommand]:
        """Asks while the test plays the consumer."""
        return self._threads.submit(self.ask, code, **fields)

    def put_group(self, **settings: Any) -> None:
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        assert self._admin.call(code, body=json.dumps(settings).encode()).code == 0

    def commit(self, group: str, *offsets: int) -> None:
        for queue_id, offset in enumerate(offsets):
            fields = {"consumerGroup": group, "topic": "orders", "queueId": queue_id, "commitOffset": offset}
            assert self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, **fields).code == 0

    def find_physical_offset(self, queue: MessageQueue, offset: int) -> int:
        return self.broker.look(lambda state: state.physical_offsets.find(queue, offset))

    def offsets(self, group: str) -> list[int | None]:
        stored = self.broker.consumer_offsets(group, "orders")
        return [stored.get(queue) for queue in QUEUES]


def open_office(properties: BrokerProperties | None = None) -> Iterator[Office]:
    with ExitStack() as opened:
        broker = running_broker({"orders": 2}, remoting=True, clock="manual", properties=properties)
        yield Office(opened.enter_context(broker), opened)


@pytest.fixture
def office() -> Iterator[Office]:
    yield from open_office()


@pytest.fixture
def office_that_tells_members() -> Iterator[Office]:
    yield from open_office(BrokerProperties(use_server_side_reset_offset=False))


# --- messages that are returned ---------------------------------------------------------------------------------------


def send_back(office: Office, offset: int, level: int, **fields: Any) -> tuple[int, str | None]:
    given = {"group": "readers", "offset": offset, "delayLevel": level, **fields}
    response = office.ask(RequestCode.CONSUMER_SEND_MSG_BACK, **given)
    return response.code, response.remark


def test_a_returned_message_is_redelivered_after_its_delay_and_then_to_the_dead_letters(office: Office) -> None:
    office.connect("ann", "readers")
    (sent,) = office.broker.send("orders", Message(b"one", "ID", tags="red", properties={"k": "v"}))
    queue = QUEUES[0] if office.broker.bounds("orders")[QUEUES[0]].max_offset else QUEUES[1]
    physical = office.find_physical_offset(queue, sent.queue_offset)
    assert send_back(office, physical, 1, maxReconsumeTimes=1) == (0, None)
    assert office.broker.messages(RETRY.topic) == []
    office.broker.clock.advance(1_000)
    (again,) = office.broker.messages(RETRY.topic)
    assert (again.message.body, again.reconsume_times, again.message.properties) == (b"one", 1, {"k": "v"})
    host, port = office.broker.remoting_addresses[0].split(":")
    kept = {name: again.message.system_properties[name] for name in ("RETRY_TOPIC", "ORIGIN_MESSAGE_ID")}
    assert kept == {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": make_offset_msg_id(host, int(port), physical)}
    assert send_back(office, office.find_physical_offset(RETRY, 0), 1, maxReconsumeTimes=1) == (0, None)
    (dead,) = office.broker.messages(DEAD.topic)
    assert (dead.reconsume_times, dead.message.system_properties["DELAY"]) == (2, "0")
    assert {name: dead.message.system_properties[name] for name in kept} == kept


def test_a_message_that_does_not_exist_creates_the_retry_topic_all_the_same(office: Office) -> None:
    for missing in (1_000, office.find_physical_offset(QUEUES[0], 3)):
        assert send_back(office, missing, 0) == (1, f"look message by offset failed, {missing}")
    assert office.broker.look(lambda state: (list(state.groups), list(state.topics))) == (
        ["readers"],
        ["orders", "%RETRY%readers"],
    )


def test_a_group_that_may_not_be_created_returns_nothing(office: Office) -> None:
    code, remark = send_back(office, 0, 0, group="a.b")
    assert (code, remark) == (
        26,
        "subscription group not exist, a.b \nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further "
        "details.",
    )


# --- resets -----------------------------------------------------------------------------------------------------------


def reset(office: Office, **fields: Any) -> tuple[int, str | None, list[int | None]]:
    given = {"topic": "orders", "group": "readers", "timestamp": -1, "isForce": "true", **fields}
    response = office.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **given)
    table = decode_offsets(response.body) if response.body else {}
    return response.code, response.remark, [table.get(QueueOfBroker("orders", "broker-a", n)) for n in (0, 1)]


def test_a_reset_is_told_and_counts_until_the_next_pull(office: Office) -> None:
    office.connect("ann", "readers")
    office.broker.send("orders", b"1", b"2", b"3", b"4")
    assert reset(office) == (0, None, [2, 2])
    assert reset(office, timestamp=0) == (0, None, [0, 0])
    assert reset(office, timestamp=0, queueId=1, offset=1) == (0, None, [None, 1])
    assert office.offsets("readers") == [0, 1]
    office.commit("readers", 2, 2)
    assert office.offsets("readers") == [0, 1]


def test_of_several_waiting_pulls_the_newest_is_told_of_a_reset(office: Office) -> None:
    before, now = office.connect("before", "readers"), office.connect("now", "readers")
    pull = {"consumerGroup": "readers", "topic": "orders", "queueId": 0, "queueOffset": 0, "maxMsgNums": 1}
    for member in (before, now):
        waiting = {**pull, "sysFlag": SUSPEND | SUBSCRIPTION, "suspendTimeoutMillis": 15_000, "subscription": "*"}
        member.start(RequestCode.PULL_MESSAGE, waiting)
        member.list_members("readers")
    assert reset(office) == (0, None, [0, 0])
    answers = [find_response(member) for member in (before, now)]
    assert [answer.code for answer in answers] == [ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED]


def find_response(member: RemotingMember) -> RemotingCommand:
    """The response to a pull, after notices that the broker may have sent."""
    while not (received := member.receive()).is_response:
        pass
    return received


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({"topic": "unknown", "group": "nobody"}, (17, "Topic unknown does not exist")),
        ({"group": "nobody"}, (26, "Group nobody does not exist")),
        ({"queueId": 0, "offset": 9}, (1, "Target offset 9 not in consume queue range [0-0]")),
    ],
)
def test_a_reset_is_checked_in_apaches_order(office: Office, fields: dict[str, Any], answer: tuple[int, str]) -> None:
    office.connect("ann", "readers")
    assert reset(office, **fields)[:2] == answer


def test_each_broker_resets_its_own_queues() -> None:
    with running_broker({"orders": 1}, remoting=True, brokers=("a", "b")) as broker, ExitStack() as opened:
        members = [opened.enter_context(RemotingMember(address)) for address in broker.remoting_addresses]
        for member, name in zip(members, ("a", "b"), strict=True):
            member.beat("readers")
            fields = {"topic": "orders", "group": "readers", "timestamp": -1, "isForce": "true"}
            body = member.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields).body
            assert decode_offsets(body) == {QueueOfBroker("orders", name, 0): 0}


NOT_SET = "not set any response code"


@pytest.mark.parametrize(("is_force", "targets"), [("true", [2, 2]), ("false", [1, 2])])
def test_members_are_told_of_a_reset_if_pulls_are_not(
    office_that_tells_members: Office, is_force: str, targets: list[int]
) -> None:
    office = office_that_tells_members
    ann, bob = (office.connect(name, "readers") for name in ("ann", "bob"))
    ann.list_notices()
    office.broker.send("orders", b"1", b"2", b"3", b"4")
    office.commit("readers", 1, 2)
    assert reset(office, isForce=is_force) == (0, NOT_SET, targets)
    for member in (ann, bob):
        told = member.receive()
        assert (told.code, told.is_oneway) == (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, True)
        assert {name: told.fields[name] for name in ("topic", "group")} == {"topic": "orders", "group": "readers"}
        assert list(decode_offsets(told.body).values()) == targets
    assert office.offsets("readers") == [1, 2]


def test_a_reset_that_nobody_can_be_told_of_is_refused(office_that_tells_members: Office) -> None:
    office = office_that_tells_members
    office.connect("ann", "readers").close()
    assert reset(office)[:2] == (1, "THe consumer group <readers> not exist")
    assert reset(office, topic="unknown")[0] == ResponseCode.TOPIC_NOT_EXIST
    office.commit("readers", 0, 0)
    code, remark, _ = reset(office)
    sentence = "Consumer not online, so can not reset offset, Group: readers Topic: orders Timestamp: -1"
    assert (code, remark) == (ResponseCode.CONSUMER_NOT_ONLINE, sentence)


# --- offsets of several groups ----------------------------------------------------------------------------------------


def test_a_group_gets_the_offsets_of_another_one(office: Office) -> None:
    office.connect("ann", "readers")
    office.commit("readers", 3, 5)
    clone = RequestCode.CLONE_GROUP_OFFSET
    assert office.ask(clone, srcGroup="readers", destGroup="others", topic="orders").code == 0
    assert office.offsets("others") == [3, 5]
    assert office.ask(clone, srcGroup="readers", destGroup="nobody").code == 0
    assert office.offsets("nobody") == [None, None]


def test_offsets_of_a_topic_that_the_group_does_not_subscribe_to_are_cloned_offline_only(office: Office) -> None:
    ann = office.connect("ann", "readers")
    office.commit("readers", 3, 5)
    ann.beat(make_membership("readers", "invoices"))
    clone = RequestCode.CLONE_GROUP_OFFSET
    for offline, found in (("false", [None, None]), ("true", [3, 5])):
        office.ask(clone, srcGroup="readers", destGroup="others", topic="orders", offline=offline)
        assert office.offsets("others") == found


@pytest.mark.proves("QUERY_CORRECTION_OFFSET (308) with groups to filter")
def test_corrections_are_the_smallest_offsets_of_all_groups(office: Office) -> None:
    office.connect("ann", "readers", "others")
    office.commit("readers", 3, 5)
    office.commit("others", 4, 2)
    correct = RequestCode.QUERY_CORRECTION_OFFSET
    for ignored, body in (("", b"{0:3,1:2}"), ("others,nobody", b"{0:3,1:5}")):
        response = office.ask(correct, topic="orders", compareGroup="readers", filterGroups=ignored)
        assert bytes(response.body) == b'{"correctionOffsets":' + body + b"}"


# --- requests to one consumer -----------------------------------------------------------------------------------------


def test_a_consumer_tells_its_offsets_and_one_that_cannot_is_left_out(office: Office) -> None:
    ann, bob = (office.connect(name, "readers") for name in ("ann", "bob"))
    ann.list_notices()
    asked = office.start(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, topic="orders", group="readers")
    requests = ann.receive(), bob.receive()
    assert [request.code for request in requests] == [RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT] * 2
    ann.respond(requests[0], body=encode_consumer_status({("orders", "broker-a", 0): 7}))
    bob.respond(requests[1], code=1)
    body = (
        b'{"consumerTable":{"ann":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:7}},"messageQueueTable":{}}'
    )
    assert (asked.result(WAIT_S).code, bytes(asked.result(WAIT_S).body)) == (0, body)


def test_one_consumer_is_asked_by_its_client_id(office: Office) -> None:
    ann, bob = (office.connect(name, "readers") for name in ("ann", "bob"))
    ann.list_notices()
    asked = office.start(
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, topic="orders", group="readers", clientAddr="bob"
    )
    bob.close()
    assert bytes(asked.result(WAIT_S).body) == b'{"consumerTable":{},"messageQueueTable":{}}'
    refused = office.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, topic="orders", group="nobody")
    assert refused.remark == "No Any Consumer online in the consumer group: [nobody]"


def test_a_request_is_forwarded_to_a_consumer_and_its_response_comes_back(office: Office) -> None:
    ann = office.connect("ann", "readers")
    fields = {"consumerGroup": "readers", "clientId": "ann", "jstackEnable": "true"}
    asked = office.start(RequestCode.GET_CONSUMER_RUNNING_INFO, **fields)
    request = ann.receive()
    assert (request.code, request.fields, request.is_oneway) == (RequestCode.GET_CONSUMER_RUNNING_INFO, fields, False)
    ann.respond(request, 0, b'{"jstack":"..."}')
    assert (asked.result(WAIT_S).code, bytes(asked.result(WAIT_S).body)) == (0, b'{"jstack":"..."}')


def test_a_consumer_gets_a_message_whatever_its_offset_is(office: Office) -> None:
    """With the flag of its group, as pulls have it (rules 3.1)."""
    office.put_group(groupName="readers", groupSysFlag=5)
    ann = office.connect("ann", "readers")
    (sent,) = office.broker.send("orders", b"body of the message")
    queue = QUEUES[0] if office.broker.bounds("orders")[QUEUES[0]].max_offset else QUEUES[1]
    msg_id = make_offset_msg_id("127.0.0.1", 1, office.find_physical_offset(queue, sent.queue_offset))
    asked = office.start(
        RequestCode.CONSUME_MESSAGE_DIRECTLY, consumerGroup="readers", clientId="ann", msgId=msg_id, topic="orders"
    )
    request = ann.receive()
    added = {name: request.fields[name] for name in ("brokerName", "topicSysFlag", "groupSysFlag")}
    assert added == {"brokerName": "broker-a", "topicSysFlag": "0", "groupSysFlag": "5"}
    assert b"body of the message" in bytes(request.body)
    assert parse_offset_msg_id(request.fields["msgId"]).physical_offset.to_bytes(8, "big") in bytes(request.body)
    ann.respond(request, 0, b"{}")
    assert asked.result(WAIT_S).code == 0


@pytest.mark.parametrize("msg_id", ["", "no id", make_offset_msg_id("127.0.0.1", 1, 99)])
def test_a_message_that_does_not_exist_is_not_forwarded(office: Office, msg_id: str) -> None:
    office.connect("ann", "readers")
    fields = {"consumerGroup": "readers", "clientId": "ann", "msgId": msg_id}
    assert office.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, **fields).code == ResponseCode.SYSTEM_ERROR


def test_a_consumer_that_is_away_is_not_asked(office: Office) -> None:
    fields = {"consumerGroup": "readers", "clientId": "ann"}
    assert (
        office.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, **fields).remark == "The Consumer <readers> <ann> not online"
    )


def test_a_consumer_that_leaves_or_is_silent_while_it_is_asked(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = office.connect("ann", "readers")
    fields = {"consumerGroup": "readers", "clientId": "ann"}
    asked = office.start(RequestCode.GET_CONSUMER_RUNNING_INFO, **fields)
    ann.receive()
    ann.close()
    assert "invoke consumer <readers> <ann> Exception: " in str(asked.result(WAIT_S).remark)
    office.connect("ann", "readers")
    monkeypatch.setattr(consumers, "FORWARD_TIMEOUT_MS", 10)
    response = office.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, **fields)
    assert response.code == ResponseCode.CONSUME_MSG_TIMEOUT
