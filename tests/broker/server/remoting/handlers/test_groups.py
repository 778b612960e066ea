"""Consumer groups over the remoting protocol: their settings (rules 3.9.4)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from processes.apache.calls import CallRefused, Calls
from rmqpull_broker.core.model import CustomizedBackoff, ExponentialBackoff
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.names import GROUPS_FROM_START
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.json_dialect import read_json, write_json


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker({"orders": 2}, remoting=True) as running:
        yield running


def put(broker: RunningBroker, **settings: object) -> None:
    body = write_json(settings)
    Calls().call(broker.remoting_addresses[0], RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)


def test_a_group_is_created_and_changed(broker: RunningBroker) -> None:
    put(broker, groupName="readers", retryMaxTimes=3, consumeEnable=False, unknown=1)
    put(broker, groupName="readers", retryMaxTimes=4)
    body = Calls().call(broker.remoting_addresses[0], RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "readers"})
    settings = read_json(body.body)
    assert (settings["retryMaxTimes"], settings["consumeEnable"]) == (4, True)
    assert settings["groupRetryPolicy"] == {"type": "CUSTOMIZED"}
    listed = read_json(Calls().call(broker.remoting_addresses[0], RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body)
    assert listed["subscriptionGroupTable"]["readers"] == settings


def test_a_broker_has_groups_of_the_system_from_its_start(broker: RunningBroker) -> None:
    """Also if it creates no others by itself."""
    address = broker.remoting_addresses[0]
    listed = read_json(Calls().call(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body)
    assert listed["subscriptionGroupTable"].keys() == set(GROUPS_FROM_START)
    change = b"autoCreateSubscriptionGroup=false"
    Calls().call(address, RequestCode.UPDATE_BROKER_CONFIG, body=change)
    for name in GROUPS_FROM_START:
        found = Calls().call(address, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": name})
        assert read_json(found.body)["groupName"] == name
    with pytest.raises(CallRefused, match="No group in this broker"):
        Calls().call(address, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "readers"})


@pytest.mark.parametrize(
    ("given", "shown", "strategy"),
    [
        (
            {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1000, "max": 8000, "multiplier": 3}},
            None,
            ExponentialBackoff(1_000, 8_000, 3.0),
        ),
        (
            {"type": "EXPONENTIAL"},
            {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 5000, "max": 7_200_000, "multiplier": 2}},
            ExponentialBackoff(5_000, 7_200_000, 2.0),
        ),
        (
            {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 5000]}},
            None,
            CustomizedBackoff((1_000, 5_000)),
        ),
        ({"type": "CUSTOMIZED"}, None, None),
    ],
)
def test_a_group_has_a_retry_policy(broker: RunningBroker, given: object, shown: object, strategy: object) -> None:
    put(broker, groupName="readers", groupRetryPolicy=given)
    body = Calls().call(broker.remoting_addresses[0], RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "readers"})
    assert read_json(body.body)["groupRetryPolicy"] == (shown or given)
    assert broker.look(lambda state: state.groups["readers"].retry_policy) == strategy


@pytest.mark.parametrize(
    "policy",
    [
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": "soon"}},
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": -1}},
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"multiplier": 0}},
        {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": []}},
        {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1] * 101}},
        {"type": "CUSTOMIZED", "customizedRetryPolicy": [1]},
    ],
)
def test_a_bad_retry_policy_is_refused(broker: RunningBroker, policy: object) -> None:
    with pytest.raises(CallRefused, match=r"retry ?policy|groupRetryPolicy"):
        put(broker, groupName="readers", groupRetryPolicy=policy)
    assert broker.look(lambda state: "readers" not in state.groups)


def test_several_groups_are_created_at_once(broker: RunningBroker) -> None:
    listed = [{"groupName": "first"}, {"groupName": "second"}]
    body = write_json({"groupConfigList": listed})
    Calls().call(broker.remoting_addresses[0], RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body)
    assert {"first", "second"} <= broker.look(lambda state: set(state.groups))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"[]", r"GroupSettings is \[\], expected an object"),
        (b"{", "JSON has"),
        (b'{"groupName":7}', "groupName is 7, expected str"),
        (b'{"groupName":"a","retryQueueNums":true}', "retryQueueNums is True, expected int"),
    ],
)
def test_bad_settings_are_refused(broker: RunningBroker, body: bytes, words: str) -> None:
    with pytest.raises(CallRefused, match=words):
        Calls().call(broker.remoting_addresses[0], RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)


def test_settings_of_a_missing_group_create_it_if_that_is_allowed() -> None:
    properties = BrokerProperties(auto_create_subscription_group=False)
    with running_broker({}, remoting=True, properties=properties) as broker:
        with pytest.raises(CallRefused, match="No group in this broker") as refused:
            Calls().call(broker.remoting_addresses[0], RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "readers"})
        assert refused.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


@pytest.mark.parametrize(("clean", "kept"), [("false", {0: 3}), ("true", {})])
def test_a_deleted_group_keeps_its_offsets_unless_they_are_cleaned(
    broker: RunningBroker, clean: str, kept: dict[int, int]
) -> None:
    put(broker, groupName="readers", retryMaxTimes=3)
    call, address = Calls().call, broker.remoting_addresses[0]
    offset = {"consumerGroup": "readers", "topic": "orders", "queueId": 0, "commitOffset": 3}
    call(address, RequestCode.UPDATE_CONSUMER_OFFSET, offset)
    call(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "readers", "cleanOffset": clean})
    # Without cleaning, 5.5.0 creates it anew when it has deleted it: `tests/differential` compares that.
    found = broker.look(lambda state: [(name, group.retry_max_times) for name, group in state.groups.items()])
    assert found == ([("readers", 16)] if clean == "false" else [])
    assert broker.look(lambda state: {queue.queue_id: at for (_, queue), at in state.consumer_offsets.items()}) == kept
