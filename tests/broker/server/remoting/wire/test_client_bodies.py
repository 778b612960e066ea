"""Bodies about clients, groups and queues, as Java, C++ and Go write them."""

from __future__ import annotations

import pytest

from rmqpull_broker.server.remoting.wire.client_bodies import decode_client_check, decode_heartbeat, encode_client_ids
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.heartbeats import GroupMembership, HeartbeatData, Subscription

JAVA = b"""{"clientID":"10.0.0.1@77","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":
"CONSUME_PASSIVELY","groupName":"readers","messageModel":"BROADCASTING","subscriptionDataSet":[{"classFilterMode":false,
"codeSet":[97],"expressionType":"TAG","subString":"a","subVersion":1700000000000,"tagsSet":["a"],"topic":"orders"}],
"unitMode":false}],"heartbeatFingerprint":-7,"producerDataSet":[{"groupName":"CLIENT_INNER_PRODUCER"}],
"withoutSub":true}"""
CPP = b"""{"clientID":"c","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,"groupName":"readers","messageModel":
0,"subscriptionDataSet":[{"topic":"orders","subString":"a","subVersion":"1700000000000"}]}],"producerDataSet":null,}"""


def test_a_heartbeat_of_java() -> None:
    subscription = Subscription("orders", "a", 1_700_000_000_000)
    member = GroupMembership(
        "readers", "CONSUME_PASSIVELY", "BROADCASTING", "CONSUME_FROM_FIRST_OFFSET", (subscription,)
    )
    data = HeartbeatData("10.0.0.1@77", (member,), ("CLIENT_INNER_PRODUCER",), -7, without_sub=True)
    assert decode_heartbeat(JAVA) == decode_heartbeat(data.encode()) == data


def test_a_heartbeat_of_cpp_has_numbers_for_enums_and_texts_for_numbers() -> None:
    (member,) = decode_heartbeat(CPP).consumers
    assert (member.consume_type, member.message_model) == ("CONSUME_PASSIVELY", "BROADCASTING")
    assert member.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"
    assert member.subscriptions == (Subscription("orders", "a", 1_700_000_000_000),)


def test_what_a_heartbeat_leaves_out_has_javas_defaults() -> None:
    body = b'{"consumerDataSet":[{"groupName":"g","consumeType":"new","subscriptionDataSet":[{"topic":"t"}]}]}'
    member = GroupMembership("g", subscriptions=(Subscription("t", "", None),))
    assert decode_heartbeat(body) == HeartbeatData("", (member,))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"consumerDataSet":{}}',
        b'{"consumerDataSet":[1]}',
        b'{"clientID":[]}',
        b'{"withoutSub":"x"}',
        b'{"heartbeatFingerprint":"x"}',
        b'{"consumerDataSet":[{"consumeType":3}]}',
    ],
)
def test_a_body_that_is_no_heartbeat_is_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        decode_heartbeat(body)


def test_a_check_of_a_client_may_have_no_subscription() -> None:
    assert decode_client_check(b"") is decode_client_check(b"{}") is None
    body = b'{"subscriptionData":{"topic":"t","expressionType":"SQL92","subString":"a > 1","subVersion":3}}'
    assert decode_client_check(body) == Subscription("t", "a > 1", 3, "SQL92")


def test_a_list_of_clients() -> None:
    assert encode_client_ids(["ann", "bob"]) == b'{"consumerIdList":["ann","bob"]}'
