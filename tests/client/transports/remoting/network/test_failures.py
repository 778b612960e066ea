"""Response codes become exceptions that say what to do."""

from __future__ import annotations

import pickle

import pytest

from rmqpull_client.errors import (
    BrokerFailed,
    FilterRefused,
    GroupNotFound,
    OffsetNotFound,
    QueueNotFound,
    RequestRefused,
    TopicNotFound,
    Unserved,
)
from rmqpull_client.transports.remoting.network.cluster import Place
from rmqpull_client.transports.remoting.network.failures import is_busy, make_refusal
from rmqpull_proto.remoting.command import RemotingCommand

BROKER, NAME_SERVER = Place("10.0.0.1:10911", "broker-a"), Place("10.0.0.9:9876")
PULL = RemotingCommand(11)
FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
ACL, ACL_AT = "org.apache.rocketmq.acl.common.AclException", "org.apache.rocketmq.acl.plain.PlainPermissionManager.x"
KEYS, PERMISSIONS = "Check the access key and the secret key", "Check the permissions"


@pytest.mark.parametrize(
    ("code", "name", "remark", "kind", "advice"),
    [
        (1, "SYSTEM_ERROR", "java.lang.NullPointerException, x.Y", BrokerFailed, "See the broker's log."),
        (1, "SYSTEM_ERROR", "queueId[9] is illegal, topic:[t]", QueueNotFound, ""),
        (29, "INVALID_PARAMETER", "queueId[9] is illegal, topic:[t]", QueueNotFound, ""),
        (29, "INVALID_PARAMETER", "request queueId[9] is illegal, TopicConfig [t]", QueueNotFound, ""),
        (29, "INVALID_PARAMETER", "The specified topic is blank.", RequestRefused, ""),
        (
            1,
            "SYSTEM_ERROR",
            "The broker does not support consumer to filter message by SQL92",
            FilterRefused,
            "enablePropertyFilter=true",
        ),
        (1, "SYSTEM_ERROR", f"{ACL}: No acl config for reader, {ACL_AT}", RequestRefused, KEYS),
        (1, "SYSTEM_ERROR", f"{ACL}: Check signature failed for accessKey=reader, {ACL_AT}", RequestRefused, KEYS),
        (1, "SYSTEM_ERROR", f"{ACL}: No accessKey is configured, {ACL_AT}", RequestRefused, "set options accessKey"),
        (1, "SYSTEM_ERROR", f"{ACL}: No default permission for topic:t, {ACL_AT}", RequestRefused, "PUB on the topic"),
        (1, "SYSTEM_ERROR", f"{ACL}: No permission for topic:t, {ACL_AT}", RequestRefused, "PUB on the topic"),
        (16, "NO_PERMISSION", "username cannot be null.", RequestRefused, "set options accessKey"),
        (
            16,
            "NO_PERMISSION",
            "User:reader has no permission to access Topic:t from 127.0.0.1, no matched policies.",
            RequestRefused,
            "GET on the topic",
        ),
        (16, "NO_PERMISSION", "the topic[t] pulling message is forbidden", RequestRefused, PERMISSIONS),
        (16, "NO_PERMISSION", "subscription group no permission, g", RequestRefused, PERMISSIONS),
        (16, "NO_PERMISSION", "check signature failed.", RequestRefused, KEYS),
        (16, "NO_PERMISSION", "User:reader is not found.", RequestRefused, KEYS),
        (17, "TOPIC_NOT_EXIST", f"topic[t] not exist, apply first please!{FAQ}", TopicNotFound, ""),
        (22, "QUERY_NOT_FOUND", "Not found, do not set to zero", OffsetNotFound, ""),
        (23, "SUBSCRIPTION_PARSE_FAILED", "parse the consumer's subscription failed", FilterRefused, ""),
        (
            24,
            "SUBSCRIPTION_NOT_EXIST",
            f"the consumer's group info not exist, or the pull consumer is rejected by server.{FAQ}",
            RequestRefused,
            "rejectPullConsumerEnable=false",
        ),
        (24, "SUBSCRIPTION_NOT_EXIST", f"the consumer's group info not exist{FAQ}", RequestRefused, ""),
        (
            26,
            "SUBSCRIPTION_GROUP_NOT_EXIST",
            f"subscription group [g] does not exist, {FAQ}",
            GroupNotFound,
            "updateSubGroup",
        ),
        (501, "NOT_LEADER_FOR_QUEUE", "t-0 cannot find mapping item", RequestRefused, "Static topics"),
        (777, "777", "", RequestRefused, "without a text"),
    ],
)
def test_a_code_becomes_an_exception(
    code: int, name: str, remark: str, kind: type[RequestRefused], advice: str
) -> None:
    error = make_refusal(BROKER, PULL, RemotingCommand(code, remark=remark))
    assert type(error) is kind
    assert error.code == name
    assert str(error).startswith(
        f"The broker broker-a at 10.0.0.1:10911 responded to PULL_MESSAGE with {name} ({code}): "
    )
    assert advice in str(error)
    assert "06FAQ" not in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    ("place", "advice"),
    [
        (NAME_SERVER, "It is not a name server, perhaps a broker: set option nameServers"),
        (BROKER, "The broker registered this address. It may be that of a name server, the broker's second port"),
        (Place("h:1", "b", 0, is_given=True), "Option brokerAddresses names this address. It may be that of a name"),
    ],
)
def test_a_server_that_does_not_know_a_request_may_be_the_wrong_one(place: Place, advice: str) -> None:
    error = make_refusal(place, PULL, RemotingCommand(3, remark=" request type 11 not supported"))
    assert type(error) is Unserved
    assert f"(3): request type 11 not supported. {advice}" in str(error)


@pytest.mark.parametrize(
    ("code", "remark", "busy"),
    [
        (2, "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while", True),
        (14, "service not available now", True),
        (215, "", True),
        (1500, "please go away", True),
        (1, "[PC_SYNCHRONIZED]broker busy, start flow control for a while", True),
        (1, "name server not ready", True),
        (1, "store getMessage return null", False),
        (1, None, False),
        (17, "topic[broker busy] not exist", False),
    ],
)
def test_a_busy_server_is_told_by_code_or_text(code: int, remark: str | None, busy: bool) -> None:
    assert is_busy(RemotingCommand(code, remark=remark)) is busy
