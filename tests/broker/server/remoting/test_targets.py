"""The topic and the queue that a request names."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.admin.fault_rules import Target
from rmqpull_broker.server.remoting.calls import RemotingCall, Site
from rmqpull_broker.server.remoting.targets import find_group, find_targets
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand

SITE = Site("broker-a", "127.0.0.1", 9876, "127.0.0.1")


@pytest.mark.parametrize(
    ("code", "fields", "targets"),
    [
        (RequestCode.PULL_MESSAGE, {"topic": "orders", "queueId": "3"}, [Target("orders", "broker-a", 3)]),
        (RequestCode.SEND_MESSAGE_V2, {"b": "orders", "e": "3"}, [Target("orders", "broker-a", 3)]),
        (RequestCode.SEND_MESSAGE_V2, {"b": "orders", "e": "-1"}, [Target("orders", "broker-a", None)]),
        (RequestCode.PULL_MESSAGE, {"b": "orders"}, []),
        (RequestCode.PULL_MESSAGE, {"topic": "orders", "queueId": "9" * 5_000}, [Target("orders", "broker-a", None)]),
        (RequestCode.HEART_BEAT, {}, []),
    ],
)
def test_what_a_request_names(code: int, fields: dict[str, str], targets: list[Target]) -> None:
    call = RemotingCall(RemotingCommand(code, fields), None, SITE)  # type: ignore[arg-type]
    assert list(find_targets(call)) == targets


@pytest.mark.parametrize(
    ("fields", "group"), [({"consumerGroup": "readers"}, "readers"), ({"group": "readers"}, "readers"), ({}, "")]
)
def test_the_group_that_a_request_names(fields: dict[str, str], group: str) -> None:
    call = RemotingCall(RemotingCommand(RequestCode.PULL_MESSAGE, fields), None, SITE)  # type: ignore[arg-type]
    assert find_group(call) == group
