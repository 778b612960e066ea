"""Pulls with long and deep filters, and pulls that wait, on the emulator and on a real Apache RocketMQ."""

from __future__ import annotations

import pytest

from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from tests.differential.both import Both
from tests.differential.steps import OWN, Step

PLACE = {"consumerGroup": f"{OWN}readers", "topic": f"{OWN}orders", "queueId": "0"}
SUSPEND, SUBSCRIPTION = 2, 4
SOON, NEVER = "3000", "600000"
"""When a pull that waits has waited long enough, in milliseconds. Checks are 5 s apart, so it takes 8 s at most."""
PAST = str(2**63 - 1)
"""Java's sum with the time now is negative."""
LONG = " OR ".join(["TAGS = 'blue'"] * 1_000)


def pull(subscription: str, kind: str, offset: int = 0, wait_ms: str = "") -> Step:
    fields = {
        **PLACE,
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": str(SUBSCRIPTION | (SUSPEND if wait_ms else 0)),
        "commitOffset": "0",
        "suspendTimeoutMillis": wait_ms or "0",
        "subVersion": "0",
        "subscription": subscription,
        "expressionType": kind,
    }
    return Step("pull", RequestCode.PULL_MESSAGE, fields)


def send(tag: str) -> Step:
    fields = {"a": "producers", "b": f"{OWN}orders", "c": "TBW102", "d": "2", "e": "0", "f": "0", "g": "1700000000000"}
    fields |= {"h": "0", "i": f"TAGS\1{tag}\2", "j": "0", "k": "false"}
    return Step("send", RequestCode.SEND_MESSAGE_V2, fields, b"body")


def put_topic(perm: int) -> Step:
    fields = {"topic": f"{OWN}orders", "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2"}
    fields |= {"perm": str(perm), "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    return Step("put a topic", RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


DELETE = Step("delete a topic", RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": f"{OWN}orders"})


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        pytest.param(f"{LONG} OR TAGS = 'red'", ResponseCode.SUCCESS, id="long"),
        pytest.param(LONG, ResponseCode.PULL_RETRY_IMMEDIATELY, id="long, for other messages"),
        pytest.param(f"{LONG} OR", ResponseCode.SUCCESS, id="long and malformed"),
        pytest.param("(" * 90 + "TAGS = 'red'" + ")" * 90, ResponseCode.SUCCESS, id="deep"),
        pytest.param("(" * 90 + "a = 1" + ")" * 90, ResponseCode.PULL_RETRY_IMMEDIATELY, id="deep, for other messages"),
        pytest.param("(" * 90 + "a = 1" + ")" * 89, ResponseCode.SUCCESS, id="deep and malformed"),
    ],
)
def test_long_and_deep_filters_filter_and_malformed_ones_keep_everything(
    both: Both, expression: str, code: ResponseCode
) -> None:
    """Below the limits of the emulator, 32,768 characters and 100 levels, which refuses those above with 23."""
    assert both.do(pull(expression, "SQL92")).code == code


@pytest.mark.parametrize(
    ("end", "wait_ms", "code"),
    [
        pytest.param(send("red"), NEVER, ResponseCode.SUCCESS, id="a message that matches"),
        pytest.param(send("blue"), SOON, ResponseCode.PULL_RETRY_IMMEDIATELY, id="another message"),
        pytest.param(send("blue"), PAST, ResponseCode.PULL_RETRY_IMMEDIATELY, id="a time after the end of Java's"),
        pytest.param(put_topic(2), SOON, ResponseCode.NO_PERMISSION, id="no right to read any more"),
        pytest.param(DELETE, SOON, ResponseCode.TOPIC_NOT_EXIST, id="the topic is deleted"),
    ],
)
def test_a_pull_that_waits_is_answered(both: Both, end: Step, wait_ms: str, code: ResponseCode) -> None:
    """The answer to the wait is complete after the next request."""
    waiting = both.hold(pull("red", "TAG", 1, wait_ms))
    both.do(end)
    assert both.end(waiting).code == code


def test_a_change_of_the_right_to_read_wakes_no_pull_that_waits(both: Both) -> None:
    """Nor does a message that does not match. The message that is found came after both."""
    waiting = both.hold(pull("red", "TAG", 1, NEVER))
    for step in (send("blue"), put_topic(2), put_topic(6)):
        both.do(step, ends_holds=False)
    both.do(send("red"))
    assert both.end(waiting).fields["nextBeginOffset"] == "3"
