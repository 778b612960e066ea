"""Consumer offsets of a group that has no members."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest

from rmqpull_client.connection import Connection
from rmqpull_client.errors import GroupNotFound, OptionError, RequestRefused
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.remoting.consumer_groups import MEMBERS_EVERY_S, ConsumerGroups
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.scripted_queues import QueueScript, serve_queues
from tests.harness.scripted_remoting import Reaction, RouteScript, ScriptedServer, make_route

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(2)]


class GroupScript:
    """Consumer offsets of one group on a broker that knows the group only after a pull."""

    def __init__(self, creates_groups: bool = True) -> None:
        self.offsets: dict[int, int] = {}
        self.members: list[str] = []
        self.creates_groups = creates_groups
        self.has_group = False
        self.has_retry_topic = False

    def pull(self, request: RemotingCommand, number: int) -> Reaction | None:
        self.has_group = self.creates_groups
        if self.creates_groups:
            return None
        return request.make_response(26, remark="subscription group [g] does not exist")

    def __call__(self, request: RemotingCommand) -> Reaction | None:
        queue_id = int(request.fields.get("queueId", "-1"))
        if request.code == RequestCode.QUERY_CONSUMER_OFFSET:
            if queue_id not in self.offsets:
                return request.make_response(ResponseCode.QUERY_NOT_FOUND, remark="Not found")
            return request.make_response(0, {"offset": str(self.offsets[queue_id])})
        if request.code == RequestCode.UPDATE_CONSUMER_OFFSET:
            if not self.has_group:
                return request.make_response(26, remark="Group g not exist!")
            self.offsets[queue_id] = int(request.fields["commitOffset"])
            return request.make_response(0)
        if request.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            if not self.members:
                return request.make_response(1, remark="no consumer for this group, g")
            return request.make_response(0, body=json.dumps({"consumerIdList": self.members}).encode())
        if request.code == RequestCode.CONSUMER_SEND_MSG_BACK:
            self.has_retry_topic = True
            return request.make_response(1, remark="look message by offset failed, 1")
        return None


def serve(script: GroupScript) -> QueueScript:
    return QueueScript(disturb=script.pull, others=script)


def test_the_first_offsets_create_the_group_and_its_retry_topic() -> None:
    script = GroupScript()
    with serve_queues(serve(script), queues=2) as (client, [server]):
        assert client.set_consumer_offsets("g", {QUEUES[0]: 4, QUEUES[1]: 5}) == {}
        assert client.set_consumer_offsets("g", {QUEUES[0]: 7}) == {QUEUES[0]: 4}
        assert client.get_consumer_offsets("g", QUEUES) == {QUEUES[0]: 7, QUEUES[1]: 5}
        assert server.count(RequestCode.PULL_MESSAGE) == 1
        assert server.count(RequestCode.CONSUMER_SEND_MSG_BACK) == 1
    assert script.has_retry_topic


def test_the_first_offset_of_a_topic_goes_alone() -> None:
    """A broker that stores the first ones at the same time loses some (rules 6.1)."""
    script = GroupScript()
    script.has_group = True
    with serve_queues(serve(script), queues=9) as (client, [server]):
        queues = {MessageQueue("orders", "broker-a", number): 7 for number in range(9)}
        for _ in range(2):
            client.set_consumer_offsets("g", queues)
        codes = [request.code for request in server.requests]
    assert script.offsets == dict.fromkeys(range(9), 7)
    assert codes.count(RequestCode.UPDATE_CONSUMER_OFFSET) == 18


def test_no_offsets_ask_nothing() -> None:
    with serve_queues(serve(GroupScript())) as (client, [server]):
        assert client.set_consumer_offsets("g", {}) == {}
        assert client.get_consumer_offsets("g", []) == {}
        assert server.requests == []


def test_a_broker_that_creates_no_groups_is_an_error() -> None:
    with (
        serve_queues(serve(GroupScript(creates_groups=False))) as (client, _),
        pytest.raises(GroupNotFound, match=r"does not exist.*Create the group on each broker"),
    ):
        client.set_consumer_offsets("g", {QUEUES[0]: 4})


def test_a_queue_without_an_offset_has_none() -> None:
    script = GroupScript()
    script.offsets = {0: -1}
    with serve_queues(serve(script), queues=2) as (client, _):
        assert client.get_consumer_offsets("g", QUEUES) == dict.fromkeys(QUEUES)


def test_a_group_with_members_keeps_its_offsets() -> None:
    script = GroupScript()
    script.members = [f"10.0.0.{number}@1" for number in range(5)]
    with (
        serve_queues(serve(script)) as (client, _),
        pytest.raises(
            OptionError,
            match=r"Consumer group g has members .*: 10.0.0.0@1, 10.0.0.1@1, 10.0.0.2@1 and 2 more\. .*consumerGroup",
        ),
    ):
        client.set_consumer_offsets("g", {QUEUES[0]: 4})
    assert script.offsets == {}


@pytest.mark.parametrize(
    ("remark", "advice"),
    [
        ("org.apache.rocketmq.acl.common.AclException: No default permission for g", "Grant the user"),
        ("org.apache.rocketmq.acl.common.AclException: Check signature failed", "Check the access key"),
        ("a null pointer", "See the broker's log"),
        ('because "consumerGroupInfo" is null or of another user', "See the broker's log"),
    ],
)
def test_a_refusal_does_not_say_that_a_group_has_no_members(remark: str, advice: str) -> None:
    """Access control of 4.x refuses with the code that also means that a group has no members."""
    script = GroupScript()

    def refuse(request: RemotingCommand) -> Reaction | None:
        is_asked = request.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP
        return request.make_response(1, remark=remark) if is_asked else script(request)

    with (
        serve_queues(QueueScript(disturb=script.pull, others=refuse)) as (client, _),
        pytest.raises(RequestRefused, match=rf"to GET_CONSUMER_LIST_BY_GROUP with SYSTEM_ERROR \(1\): .*{advice}"),
    ):
        client.set_consumer_offsets("g", {QUEUES[0]: 4})
    assert script.offsets == {}


@pytest.mark.parametrize(
    "remark", ['Cannot invoke "a.ConsumerGroupInfo.getAllClientId()" because "consumerGroupInfo" is null', "", None]
)
def test_a_proxy_tells_by_an_exception_that_there_are_no_members(remark: str | None) -> None:
    """The exception has no text before Java 15, nor when it has been thrown often."""
    script = GroupScript()
    script.has_group = True

    def fail(request: RemotingCommand) -> Reaction | None:
        is_asked = request.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP
        return request.make_response(1, remark=remark) if is_asked else script(request)

    with serve_queues(QueueScript(others=fail)) as (client, _):
        client.set_consumer_offsets("g", {QUEUES[0]: 4})
    assert script.offsets == {0: 4}


def test_members_are_asked_for_now_and_then() -> None:
    script, now_s = GroupScript(), [1_000.0]
    with serve_queues(serve(script)) as (client, [server]):
        assert isinstance(client._channel, RemotingChannel)
        groups = ConsumerGroups(client._channel, clock=lambda: now_s[0])
        for _ in range(3):
            groups.set_offsets("g", {QUEUES[0]: 4})
        assert server.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP) == 1
        now_s[0] += MEMBERS_EVERY_S
        script.members = ["java"]
        with pytest.raises(OptionError, match="has members"):
            groups.set_offsets("g", {QUEUES[0]: 5})


def test_a_query_that_starts_asks_for_members_again() -> None:
    """The client of an earlier query, which has asked a moment ago, serves this one too."""
    script = GroupScript()
    with serve_queues(serve(script)) as (client, _):
        client.check_group("g", QUEUES)
        client.set_consumer_offsets("g", {QUEUES[0]: 4})
        script.members = ["java"]
        with pytest.raises(OptionError, match="has members"):
            client.check_group("g", QUEUES)


@pytest.mark.parametrize("members", [[], ["java"]])
def test_a_slave_knows_the_members_while_its_master_is_away(members: list[str]) -> None:
    script = GroupScript()
    script.members = members
    with ScriptedServer(serve(script)) as slave:
        name_server = ScriptedServer(RouteScript({"orders": make_route({"broker-a": {1: slave.address}})}))
        with name_server:
            groups = ConsumerGroups(RemotingChannel(Connection(name_servers=name_server.address)))
            with pytest.raises(OptionError, match="has members") if members else nullcontext():
                groups.refuse_members("g", QUEUES)
        assert slave.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP) == 1
