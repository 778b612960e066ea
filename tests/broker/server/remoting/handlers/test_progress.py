"""The progress of groups over the remoting protocol, and who consumes what (rules 3.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from processes.apache.calls import CallRefused, Calls
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.queue_table import GroupQueue, QueueTable
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.json_dialect import read_json, write_json
from tests.harness.remoting_member import RemotingMember, make_membership

START_MS = 1_700_000_000_000


class Group:
    """Group "readers" with offset 1 in queue 0 of "orders", which has two messages; queue 1 has one."""

    def __init__(self, broker: RunningBroker) -> None:
        self.broker = broker
        self.address = broker.remoting_addresses[0]
        for queue in (0, 0, 1):
            values = ("p", "orders", "TBW102", 4, queue, 0, START_MS, 0, "", 0, "false")
            self.call(RequestCode.SEND_MESSAGE_V2, body=b"body", **dict(zip("abcdefghijk", values, strict=True)))
        body = write_json({"groupName": "readers"})
        self.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        self.call(
            RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup="readers", topic="orders", queueId=0, commitOffset=1
        )

    def call(self, code: int, *, body: Any = b"", **fields: Any) -> Any:
        """Returns the body of the response."""
        found = Calls().call(self.address, code, fields, body).body
        return read_json(found) if found else None


@pytest.fixture
def group() -> Iterator[Group]:
    with running_broker({"orders": 2}, remoting=True, clock="manual") as broker:
        yield Group(broker)


def key(queue_id: int) -> str:
    return f'{{"brokerName":"broker-a","queueId":{queue_id},"topic":"orders"}}'


def test_the_progress_of_a_group(group: Group) -> None:
    for fields in ({}, {"topic": "orders"}, {"topicList": "orders;"}):
        table = group.call(RequestCode.GET_CONSUME_STATS, consumerGroup="readers", **fields)["offsetTable"]
        progress = {
            at: (each["brokerOffset"], each["consumerOffset"], each["pullOffset"]) for at, each in table.items()
        }
        assert progress == {key(0): (2, 1, 1), key(1): (1, 0, 0)}
        assert table[key(0)]["lastTimestamp"] > 0
        assert table[key(1)]["lastTimestamp"] == 0
    assert group.call(RequestCode.GET_CONSUME_STATS, consumerGroup="nobody") == {"consumeTps": 0, "offsetTable": {}}


def test_a_group_that_subscribes_to_something_else_has_no_progress_here(group: Group) -> None:
    with RemotingMember(group.address, "ann") as member:
        member.beat(make_membership("readers", "sales"))
        assert group.call(RequestCode.GET_CONSUME_STATS, consumerGroup="readers")["offsetTable"] == {}
        named = group.call(RequestCode.GET_CONSUME_STATS, consumerGroup="readers", topicList="orders")
        assert len(named["offsetTable"]) == 2


def test_the_progress_of_all_groups(group: Group) -> None:
    told = group.call(RequestCode.GET_BROKER_CONSUME_STATS, isOrder="false")
    assert (told["brokerAddr"], told["totalDiff"], told["totalInflightDiff"]) == (group.address, 2, -1)
    ((name, (table,)),) = told["consumeStatsList"][0].items()
    assert name == "readers"
    assert table["offsetTable"][key(0)]["pullOffset"] == 0
    ordered = group.call(RequestCode.GET_BROKER_CONSUME_STATS, isOrder="true")
    assert ordered["consumeStatsList"] == [{"readers": []}]


class Watched(QueueTable[int]):
    """A table that counts the groups of which the topics were looked up. Nobody may look at all entries."""

    looked_at = 0

    def __iter__(self) -> Iterator[GroupQueue]:
        raise AssertionError("all entries were looked at")

    def list_topics_of(self, group: str) -> list[str]:
        self.looked_at += 1
        return super().list_topics_of(group)


def test_the_progress_of_all_groups_looks_up_each_group_once(group: Group) -> None:
    def watch(state: BrokerState) -> Watched:
        state.consumer_offsets = Watched(state.consumer_offsets.items())
        return state.consumer_offsets

    for number in range(3):
        name = f"readers-{number}"
        group.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=write_json({"groupName": name}))
        group.call(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup=name, topic="orders", queueId=0, commitOffset=1)
    offsets = group.broker.look(watch)
    told = group.call(RequestCode.GET_BROKER_CONSUME_STATS, isOrder="false")
    assert len(told["consumeStatsList"]) == len(offsets) == 4
    assert offsets.looked_at == 4


def test_all_offsets(group: Group) -> None:
    told = group.call(RequestCode.GET_ALL_CONSUMER_OFFSET)
    assert told["offsetTable"] == {"orders@readers": {"0": 1}}
    assert told["groupTopicMap"] == {"readers": ["orders"]}


def test_time_spans(group: Group) -> None:
    spans = group.call(RequestCode.QUERY_CONSUME_TIME_SPAN, group="readers", topic="orders")["consumeTimeSpanSet"]
    first, second = spans
    assert first["minTimeStamp"] == first["maxTimeStamp"] == first["consumeTimeStamp"] == second["minTimeStamp"]
    assert first["delayTime"] == 0  # the clock stands still
    assert second["delayTime"] == second["maxTimeStamp"] + 1  # without an offset, as Apache's broker has it
    with pytest.raises(CallRefused, match=r"topic\[nothing\] not exist"):
        group.call(RequestCode.QUERY_CONSUME_TIME_SPAN, group="readers", topic="nothing")


def test_an_empty_queue_has_no_times(group: Group) -> None:
    group.broker.create_topic("empty", 1)
    (span,) = group.call(RequestCode.QUERY_CONSUME_TIME_SPAN, group="readers", topic="empty")["consumeTimeSpanSet"]
    assert (span["minTimeStamp"], span["maxTimeStamp"], span["consumeTimeStamp"]) == (-1, -1, -1)


def test_who_consumes_what(group: Group) -> None:
    assert group.call(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic="orders") == {"groupList": ["readers"]}
    assert group.call(RequestCode.QUERY_TOPICS_BY_CONSUMER, group="readers") == {
        "brokerAddr": group.address,
        "topicList": ["orders"],
    }
    told = {"group": "readers", "topic": "orders"}
    assert group.call(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, **told) == told
