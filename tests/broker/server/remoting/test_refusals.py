"""Errors as responses."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.admin.fault_rules import InjectedFailure
from rmqpull_broker.core.errors import BrokerError, Forbidden, TopicNotFound
from rmqpull_broker.server.remoting.calls import RemotingCall, Site
from rmqpull_broker.server.remoting.refusals import find_response_code, refuse
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.frames import WireError

SITE = Site("broker-a", "127.0.0.1", 9876, "127.0.0.1")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TopicNotFound("no topic"), 17),
        (Forbidden("no topic"), 16),
        (BrokerError("no topic"), 1),
        (WireError("no topic"), 1),
        (InjectedFailure("TOPIC_NOT_FOUND", "no topic"), 17),
    ],
)
def test_an_error_is_a_code_and_a_remark(error: Exception, code: int) -> None:
    call = RemotingCall(RemotingCommand(105, opaque=7), None, SITE)  # type: ignore[arg-type]
    response = refuse(call, error)
    assert response is not None
    assert (response.code, response.remark, response.opaque) == (code, "no topic", 7)


def test_an_unexpected_error_has_no_response() -> None:
    call = RemotingCall(RemotingCommand(105), None, SITE)  # type: ignore[arg-type]
    assert refuse(call, KeyError("orders")) is None


@pytest.mark.parametrize(
    ("name", "code"), [("SYSTEM_BUSY", 2), ("TOO_MANY_REQUESTS", 2), ("TOPIC_NOT_FOUND", 17), ("NOT_IMPLEMENTED", 1)]
)
def test_the_code_of_a_name(name: str, code: int) -> None:
    assert find_response_code(name) == code
