"""The connections of groups, as administrators see them (rules 3.6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.heartbeats import GroupMembership, Subscription
from rmqpull_proto.remoting.json_dialect import read_json
from tests.harness.remoting_member import RemotingMember

BROKERS = ("broker-a", "broker-b")


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker({"orders": 2}, brokers=BROKERS, remoting=True, clock="manual") as running:
        yield running


@pytest.fixture
def ann(broker: RunningBroker) -> Iterator[RemotingMember]:
    """A client of the first broker that consumes and produces."""
    with RemotingMember(broker.remoting_addresses[0], "ann") as member:
        subscription = Subscription("orders", "red || blue", 7)
        member.beat(GroupMembership("readers", subscriptions=(subscription,)), producer_groups=("writers",))
        yield member


def ask(member: RemotingMember, code: int, **fields: Any) -> Any:
    response = member.call(code, fields)
    assert response.code == 0, response
    return read_json(response.body)


def test_the_members_of_a_group_and_their_subscriptions(ann: RemotingMember) -> None:
    told = ask(ann, RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="readers")
    (connection,) = told.pop("connectionSet")
    assert (connection["clientId"], connection["language"]) == ("ann", "PYTHON")
    assert connection["clientAddr"].startswith("127.0.0.1:")
    assert (told["consumeType"], told["messageModel"]) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert told["subscriptionTable"]["orders"] == {
        "classFilterMode": False,
        "codeSet": [3027034, 112785],  # "blue".hashCode() and "red".hashCode()
        "expressionType": "TAG",
        "subString": "red || blue",
        "subVersion": 7,
        "tagsSet": ["blue", "red"],
        "topic": "orders",
    }


def test_the_producers_of_a_group(ann: RemotingMember) -> None:
    (connection,) = ask(ann, RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="writers")["connectionSet"]
    assert connection["clientId"] == "ann"
    (producer,) = ask(ann, RequestCode.GET_ALL_PRODUCER_INFO)["data"]["writers"]
    assert (producer["clientId"], producer["remoteIP"]) == ("ann", connection["clientAddr"])


@pytest.mark.parametrize(
    ("code", "field", "refusal", "words"),
    [
        (
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            "consumerGroup",
            ResponseCode.CONSUMER_NOT_ONLINE,
            "the consumer group[{}] not online",
        ),
        (
            RequestCode.GET_PRODUCER_CONNECTION_LIST,
            "producerGroup",
            ResponseCode.SYSTEM_ERROR,
            "the producer group[{}] not exist",
        ),
    ],
)
def test_groups_without_connections_to_a_broker(
    broker: RunningBroker, ann: RemotingMember, code: int, field: str, refusal: int, words: str
) -> None:
    with RemotingMember(broker.remoting_addresses[1]) as elsewhere:
        for member, group in ((ann, "nobody"), (elsewhere, "readers"), (elsewhere, "writers")):
            response = member.call(code, {field: group})
            assert (response.code, response.remark) == (refusal, words.format(group))
