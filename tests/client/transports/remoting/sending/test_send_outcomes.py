"""What a broker's response to a send means, as a table."""

from __future__ import annotations

import pytest

from rmqpull_client.connection import Connection
from rmqpull_client.errors import (
    BrokerBusy,
    BrokerFailed,
    BrokerUnavailable,
    HandshakeFailed,
    RmqpullError,
)
from rmqpull_client.transports.away import TimeLimit
from rmqpull_client.transports.remoting.network.attempts import Attempts
from rmqpull_client.transports.remoting.network.calls import Call
from rmqpull_client.transports.remoting.network.cluster import Place, Target
from rmqpull_client.transports.remoting.sending.send_outcomes import judge, make_last_error
from rmqpull_client.transports.remoting.sending.send_request import Outcome, SendCall, SendRequest
from rmqpull_proto.remoting.command import RemotingCommand
from tests.client.transports.remoting.sending.test_outbox import Rows

SEND = RemotingCommand(320)


def make_call(response: RemotingCommand | None = None, error: RmqpullError | None = None) -> Call:
    target = Target("orders", "broker-a")
    attempts = Attempts(Connection(name_servers="a:1"), target, SEND)
    call = Call(target, SEND, (), True, TimeLimit(10.0, 0.0, 0.0, 10.0), False, attempts, iter(()))
    call.response, call.error, call.place = response, error, Place("10.0.0.1:10911", "broker-a")
    return call


@pytest.mark.parametrize(
    ("code", "remark", "outcome"),
    [
        (0, None, Outcome.STORED),
        (10, None, Outcome.RETRY),
        (11, None, Outcome.RETRY),
        (12, None, Outcome.RETRY),
        (1, "CREATE_MAPPED_FILE_FAILED", Outcome.RETRY),
        (1, "org.apache.rocketmq.acl.common.AclException: Check signature failed", Outcome.REFUSED),
        (1, "java.lang.RuntimeException: message body size exceeded", Outcome.ILLEGAL),
        (1, "request queueId[9] is illegal, TopicConfig", Outcome.MOVED),
        (29, "request queueId[9] is illegal, TopicConfig", Outcome.MOVED),
        (17, "topic[orders] not exist, apply first please!", Outcome.MOVED),
        (2, "[TIMEOUT_CLEAN_QUEUE]broker busy", Outcome.BUSY),
        (14, "service not available now", Outcome.BUSY),
        (1500, "please go away", Outcome.BUSY),
        (13, "the message is illegal", Outcome.ILLEGAL),
        (16, "the broker[10.0.0.1] sending message is forbidden", Outcome.REFUSED),
        (29, "The specified topic is blank.", Outcome.REFUSED),
    ],
)
def test_each_code_has_an_outcome(code: int, remark: str | None, outcome: Outcome) -> None:
    found, error = judge(make_call(SEND.make_response(code, remark=remark)))
    assert found is outcome
    if code:
        assert f"({code})" in str(error)
        assert "broker-a at 10.0.0.1:10911" in str(error)


def test_without_a_response_the_broker_is_away_unless_no_retry_would_help() -> None:
    lost, handshake = BrokerUnavailable("no response"), HandshakeFailed("no certificate")
    assert judge(make_call(error=lost)) == (Outcome.LOST, lost)
    assert judge(make_call(error=handshake)) == (Outcome.REFUSED, handshake)


@pytest.mark.parametrize(("code", "kind"), [(12, BrokerBusy), (2, BrokerBusy), (1, BrokerFailed)])
def test_the_last_error_says_how_often_it_was_tried_and_that_messages_may_be_stored(
    code: int, kind: type[RmqpullError]
) -> None:
    _, error = judge(make_call(SEND.make_response(code, remark="slow slave")))
    request = SendRequest(SendCall(), "orders", [], None, Rows((1, 2)), error=error, retries=3)
    last = make_last_error(request)
    assert type(last) is kind
    assert "slow slave" in str(last)
    assert "It was sent 3 times" in str(last)
    assert "may be stored" in str(last)


def test_the_last_error_of_a_broker_that_was_away_is_that_of_the_connection() -> None:
    lost = BrokerUnavailable("no response")
    assert make_last_error(SendRequest(SendCall(), "orders", [], None, Rows((1,)), error=lost)) is lost
