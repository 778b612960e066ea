"""Long lists are written in slices: the answer is the same, and other requests are answered in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.json_dialect import read_json, write_json
from tests.harness.remoting_member import RemotingMember

GROUPS = 40
LISTS: dict[RequestCode, dict[str, str]] = {
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: {},
    RequestCode.GET_ALL_TOPIC_CONFIG: {},
    RequestCode.GET_ALL_CONSUMER_OFFSET: {},
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: {},
    RequestCode.GET_ALL_PRODUCER_INFO: {},
    RequestCode.GET_BROKER_CONSUME_STATS: {"isOrder": "false"},
    RequestCode.GET_CONSUME_STATS: {"consumerGroup": "group-1"},
    RequestCode.GET_CONSUMER_CONNECTION_LIST: {"consumerGroup": "group-1"},
    RequestCode.GET_PRODUCER_CONNECTION_LIST: {"producerGroup": "group-1"},
    RequestCode.GET_TOPIC_STATS_INFO: {"topic": "orders"},
    RequestCode.QUERY_CONSUME_TIME_SPAN: {"topic": "orders", "group": "group-1"},
    RequestCode.QUERY_CORRECTION_OFFSET: {"topic": "orders", "compareGroup": "group-1"},
    RequestCode.QUERY_TOPICS_BY_CONSUMER: {"group": "group-1"},
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: {"topic": "orders"},
}


def fill(state: BrokerState) -> None:
    for number in range(GROUPS):
        for queue_id in range(2):
            queue = MessageQueue("orders", "broker-a", queue_id)
            state.consumer_offsets[f"group-{number}", queue] = number


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker({"orders": 2}, remoting=True, clock="manual") as running:
        running.look(fill)
        yield running


@pytest.fixture
def member(broker: RunningBroker) -> Iterator[RemotingMember]:
    with RemotingMember(broker.remoting_addresses[0]) as member:
        groups = [{"groupName": f"group-{number}"} for number in range(GROUPS)]
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
        assert member.call(code, body=write_json({"groupConfigList": groups})).code == ResponseCode.SUCCESS
        yield member


def test_an_answer_in_slices_is_the_same(
    broker: RunningBroker, member: RemotingMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = {code: member.call(code, fields) for code, fields in LISTS.items()}
    monkeypatch.setattr("rmqpull_broker.server.runtime.slices.SLICE_S", -1)  # each step is a slice
    for code, fields in LISTS.items():
        in_slices = member.call(code, fields)
        assert (in_slices.code, in_slices.remark) == (at_once[code].code, at_once[code].remark), code
        assert bytes(in_slices.body) == bytes(at_once[code].body), code
    listed: Any = read_json(at_once[RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG].body)
    assert len(listed["subscriptionGroupTable"]) >= GROUPS


def test_an_answer_above_the_limit_of_frames_ends_there(
    member: RemotingMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqpull_broker.server.remoting.long_answers.FRAME_BYTES_MAX", 1_000)
    for slice_s in (1, -1):
        monkeypatch.setattr("rmqpull_broker.server.runtime.slices.SLICE_S", slice_s)
        refused = member.call(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        assert (refused.code, refused.remark) == (
            ResponseCode.SYSTEM_ERROR,
            "the answer has more than 1000 bytes, the max of a frame",
        )
        assert member.call(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"}).code == 0
