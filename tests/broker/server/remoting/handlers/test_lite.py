"""Requests about lite topics and the engine of timers, answered as by Apache's broker 5.5.0 (rules 6.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from processes.apache.calls import Calls, Response
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.json_dialect import read_json, write_json

REFUSALS = (1, 3, 16, 17, 26, 29, 210, 604)


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with running_broker({"orders": 2}, remoting=True) as running:
        yield running


def ask(broker: RunningBroker, code: int, fields: dict[str, Any] | None = None, body: bytes = b"") -> Response:
    return Calls().call(broker.remoting_addresses[0], code, fields, body, REFUSALS)


POP = {"clientId": "c", "consumerGroup": "g", "topic": "orders", "maxMsgNum": 1, "invisibleTime": 10_000}
SUBSCRIPTION = {"clientId": "c", "group": "g", "topic": "orders", "action": "PARTIAL_ADD", "liteTopicSet": ["l"]}


@pytest.mark.parametrize(
    ("code", "fields", "body", "answer"),
    [
        (RequestCode.POP_LITE_MESSAGE, POP, b"", (29, "the topic [orders] message type not match")),
        (RequestCode.POP_LITE_MESSAGE, POP | {"bornTime": 5}, b"", (210, "pop message is timeout too much")),
        (RequestCode.LITE_SUBSCRIPTION_CTL, {}, b"", (604, "Request body is null.")),
        (RequestCode.LITE_SUBSCRIPTION_CTL, {}, b"{}", (604, "LiteSubscriptionCtlRequestBody is empty.")),
        (RequestCode.GET_PARENT_TOPIC_INFO, {"topic": "none"}, b"", (17, "Topic [none] not exist.")),
        (RequestCode.GET_LITE_TOPIC_INFO, {"parentTopic": "orders"}, b"", (29, "Topic [orders] type not match.")),
        (RequestCode.GET_LITE_CLIENT_INFO, {"parentTopic": "orders"}, b"", (29, "Topic [orders] type not match.")),
        (RequestCode.GET_LITE_GROUP_INFO, {"group": "g"}, b"", (29, "Group [g] is not a LITE group.")),
        (RequestCode.TRIGGER_LITE_DISPATCH, {"group": "g"}, b"", (29, "Group [g] is not a LITE group.")),
        (RequestCode.SWITCH_TIMER_ENGINE, {}, b"", (29, "param error, extFields is null")),
        (RequestCode.SWITCH_TIMER_ENGINE, {"E_T": "X"}, b"", (29, "param error")),
        (RequestCode.SWITCH_TIMER_ENGINE, {"E_T": "R"}, b"", (29, "timerRocksDBEnable must be configured true when ")),
        (RequestCode.SWITCH_TIMER_ENGINE, {"E_T": "F"}, b"", (0, "switch timer engine success")),
    ],
)
def test_what_a_broker_without_lite_topics_answers(
    broker: RunningBroker, code: int, fields: dict[str, Any], body: bytes, answer: tuple[int, str]
) -> None:
    response = ask(broker, code, fields, body)
    assert response.code == answer[0]
    assert answer[1] in response.remark


@pytest.mark.proves("LITE_SUBSCRIPTION_CTL (200071) of a topic that is no parent of lite topics")
def test_nothing_can_be_subscribed_to(broker: RunningBroker) -> None:
    body = write_json({"subscriptionSet": [SUBSCRIPTION]})
    response = ask(broker, RequestCode.LITE_SUBSCRIPTION_CTL, body=body)
    assert (response.code, response.remark) == (604, "lite topics are not emulated: nothing can be subscribed to")


def test_a_broker_tells_that_it_has_no_lite_topics(broker: RunningBroker) -> None:
    told = read_json(ask(broker, RequestCode.GET_BROKER_LITE_INFO).body)
    assert (told["currentLmqNum"], told["liteSubscriptionCount"], told["storeType"]) == (0, 0, "default")


@pytest.mark.parametrize("code", [5_002, 5_003, 200_072, 200_073])
def test_what_5_5_0_does_not_serve_is_not_supported(broker: RunningBroker, code: int) -> None:
    response = ask(broker, code)
    assert (response.code, response.remark) == (3, f" request type {code} not supported")


def test_the_time_wheel_may_be_off() -> None:
    with running_broker(remoting=True, properties=BrokerProperties(timer_wheel_enable=False)) as broker:
        response = ask(broker, RequestCode.SWITCH_TIMER_ENGINE, {"E_T": "F"})
    assert (response.code, response.remark) == (29, "broker timerWheelEnable is false")
