"""Request and reply over the remoting protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rmqpull_broker.core.messages import columns
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.properties import decode_properties, encode_properties
from tests.harness.remoting_member import RemotingMember

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
NAMES = (
    *("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp"),
    *("flag", "properties", "reconsumeTimes", "unitMode"),
)


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker({}, remoting=True, clock="manual") as running:
        yield running


@pytest.fixture
def asker(broker: RunningBroker) -> Iterator[RemotingMember]:
    """The producer that has sent a request."""
    with RemotingMember(broker.remoting_addresses[0], "asker") as member:
        member.beat(producer_groups=("askers",))
        yield member


@pytest.fixture
def replier(broker: RunningBroker) -> Iterator[RemotingMember]:
    """The consumer that replies."""
    with RemotingMember(broker.remoting_addresses[0], "replier") as member:
        yield member


def make_fields(names: tuple[str, ...] | str, **properties: str) -> dict[str, Any]:
    text = encode_properties({"CORRELATION_ID": "7", **properties})
    values = ("repliers", REPLY_TOPIC, "TBW102", 4, 0, 0, 1_700_000_000_000, 5, text, 0, "false")
    return dict(zip(names, values, strict=True))


@pytest.mark.parametrize(
    ("code", "names"),
    [(RequestCode.SEND_REPLY_MESSAGE, NAMES), (RequestCode.SEND_REPLY_MESSAGE_V2, "abcdefghijk")],
)
def test_a_reply_is_pushed_to_the_producer_and_stored(
    broker: RunningBroker, asker: RemotingMember, replier: RemotingMember, code: int, names: tuple[str, ...]
) -> None:
    replier.start(code, make_fields(names, REPLY_TO_CLIENT="asker"), b"the reply")
    push = asker.receive()
    asker.respond(push)
    assert (push.code, bytes(push.body)) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b"the reply")
    assert decode_properties(push.fields["properties"]) == {
        "CORRELATION_ID": "7",
        "REPLY_TO_CLIENT": "asker",
        "PUSH_REPLY_TIME": str(broker.clock.now_ms()),
    }
    assert (push.fields["topic"], push.fields["flag"]) == (REPLY_TOPIC, "5")
    assert push.fields["storeHost"] == broker.remoting_addresses[0]
    response = replier.receive()
    assert (response.code, response.fields["queueOffset"]) == (0, "0")
    assert [row.message.body for row in broker.messages(REPLY_TOPIC)] == [b"the reply"]


def answer_badly(asker: RemotingMember, push: RemotingCommand) -> None:
    asker.respond(push, ResponseCode.SYSTEM_ERROR)


def leave(asker: RemotingMember, push: RemotingCommand) -> None:
    asker.close()


@pytest.mark.parametrize("act", [answer_badly, leave])
def test_a_producer_may_not_take_a_reply(asker: RemotingMember, replier: RemotingMember, act: Any) -> None:
    fields = make_fields("abcdefghijk", REPLY_TO_CLIENT="asker")
    replier.start(RequestCode.SEND_REPLY_MESSAGE_V2, fields, b"the reply")
    act(asker, asker.receive())
    response = replier.receive()
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, "push reply message to askerfail.")


@pytest.mark.parametrize(
    ("properties", "remark"),
    [
        ({}, "reply message properties[REPLY_TO_CLIENT] is null"),
        ({"REPLY_TO_CLIENT": "gone"}, "push reply message fail, channel of <gone> not found."),
    ],
)
def test_a_reply_to_nobody_is_refused_but_stored(
    broker: RunningBroker, replier: RemotingMember, properties: dict[str, str], remark: str
) -> None:
    fields = make_fields("abcdefghijk", **properties)
    response = replier.call(RequestCode.SEND_REPLY_MESSAGE_V2, fields, b"the reply")
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, remark)
    assert len(broker.messages(REPLY_TOPIC)) == 1


@pytest.mark.parametrize("born_ms", [-(1 << 63), (1 << 63) - 1])
def test_a_reply_of_any_time_can_be_read(broker: RunningBroker, replier: RemotingMember, born_ms: int) -> None:
    replier.call(RequestCode.SEND_REPLY_MESSAGE_V2, {**make_fields("abcdefghijk"), "g": born_ms}, b"the reply")
    (row,) = broker.messages(REPLY_TOPIC)
    assert len(columns.from_rows([row])) == 1


def test_a_reply_must_be_a_message(replier: RemotingMember) -> None:
    fields = make_fields("abcdefghijk", REPLY_TO_CLIENT="asker")
    assert replier.call(RequestCode.SEND_REPLY_MESSAGE_V2, fields).remark == "the request has no body"
    illegal = {**fields, "b": "TRANS_CHECK_MAX_TIME_TOPIC"}
    assert replier.call(RequestCode.SEND_REPLY_MESSAGE_V2, illegal, b"x").code == ResponseCode.NO_PERMISSION
