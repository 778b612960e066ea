"""Requests that no handler serves or that cannot be read, fault rules, and how requests are counted and logged."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextvars import Context, copy_context
from typing import Any

import pytest

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.shares import Shares
from rmqpull_broker.server.remoting import dispatch
from rmqpull_broker.server.remoting.calls import RemotingCall
from rmqpull_broker.server.runtime.group_commit import GroupCommit
from rmqpull_broker.server.runtime.noted_time import NOTE_TIME
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import V4_5_0, V5_3_1, VERSION, LanguageCode, RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.remoting_member import RemotingMember
from tests.harness.waiting import wait_until

SEND = {"a": "producers", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0", "j": "0"}

PULL = {
    "consumerGroup": "consumers",
    "topic": "orders",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "32",
    "sysFlag": "6",
    "commitOffset": "0",
    "suspendTimeoutMillis": "15000",
    "subscription": "*",
    "expressionType": "TAG",
    "subVersion": "1",
}


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker({"orders": 2}, remoting=True, clock="manual") as running:
        yield running


@pytest.fixture
def member(broker: RunningBroker) -> Iterator[RemotingMember]:
    with RemotingMember(broker.remoting_addresses[0], "unlucky") as connected:
        yield connected


def read_route(member: RemotingMember, topic: str = "orders") -> int:
    return member.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}).code


def test_an_unknown_code_is_answered(member: RemotingMember) -> None:
    response = member.call(31_000)
    expected = (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type 31000 not supported")
    assert (response.code, response.remark) == expected


@pytest.mark.proves("The text of an answer to a request with missing or wrong fields")
def test_a_missing_field_is_named(member: RemotingMember) -> None:
    response = member.call(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert "topic" in str(response.remark)


def test_a_handler_that_fails_is_answered_and_logged(
    member: RemotingMember, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a mistake of ours")

    monkeypatch.setattr(RemotingCall, "read_header", fail)
    response = member.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, "the broker failed; its log says why")
    assert [record.getMessage() for record in caplog.records if record.exc_info] == ["GET_ROUTEINFO_BY_TOPIC failed"]


def test_too_many_requests_that_wait_are_refused(
    broker: RunningBroker, member: RemotingMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Shares, "allows", lambda shares, holder, count=1: shares.used < 1)
    monkeypatch.setattr(Shares, "is_half_used", True)
    member.start(RequestCode.PULL_MESSAGE, PULL)
    assert read_route(member) == ResponseCode.SYSTEM_BUSY
    broker.send("orders", b"paid", b"paid")
    assert member.receive().is_response
    wait_until(lambda: read_route(member) == 0, "served")


def test_what_a_request_begins_does_not_keep_its_connection(
    broker: RunningBroker, member: RemotingMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Timers and tasks that a request begins have its context, for as long as they run."""
    contexts: list[Context] = []
    execute = GroupCommit.execute

    async def keep_context(*args: Any, **options: Any) -> Any:
        contexts.append(copy_context())
        return await execute(*args, **options)

    monkeypatch.setattr(GroupCommit, "execute", keep_context)
    member.beat("readers")
    find = contexts[0][NOTE_TIME]
    assert find() is not None
    member.close()

    def is_freed() -> bool:
        gc.collect()
        return find() is None

    wait_until(is_freed, "the connection is freed")


# --- fault rules ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("INTERNAL_SERVER_ERROR", ResponseCode.SYSTEM_ERROR),
        ("TOO_MANY_REQUESTS", ResponseCode.SYSTEM_BUSY),
        ("FLUSH_DISK_TIMEOUT", ResponseCode.FLUSH_DISK_TIMEOUT),
    ],
)
def test_a_request_fails_with_a_code_of_either_protocol(
    broker: RunningBroker, member: RemotingMember, code: str, expected: int
) -> None:
    broker.faults.fail("GET_ROUTEINFO_BY_TOPIC", code, "not today")
    response = member.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
    assert (response.code, response.remark) == (expected, "not today")
    assert read_route(member) == 0


def test_a_rule_for_all_calls_affects_requests_too(broker: RunningBroker, member: RemotingMember) -> None:
    broker.faults.fail("*", topic="orders")
    assert [read_route(member), read_route(member)] == [ResponseCode.SYSTEM_ERROR, 0]


@pytest.mark.parametrize(
    ("where", "is_affected"),
    [
        ({"topic": "orders", "queue_id": 0}, True),
        ({"topic": "orders", "queue_id": 1}, False),
        ({"topic": "others"}, False),
        ({"topic": "orders", "broker_name": "broker-b"}, False),
        ({"client_id": "unlucky"}, True),
        ({"client_id": "lucky"}, False),
    ],
)
def test_a_rule_matches_by_topic_queue_broker_and_client(
    broker: RunningBroker, member: RemotingMember, where: dict[str, Any], is_affected: bool
) -> None:
    member.beat("consumers")
    broker.faults.fail("SEND_MESSAGE_V2", times=None, **where)
    response = member.call(RequestCode.SEND_MESSAGE_V2, SEND, b"paid")
    assert (response.code != 0) is is_affected
    assert len(broker.messages("orders")) == (not is_affected)


def test_a_request_whose_response_is_lost_is_executed(broker: RunningBroker, member: RemotingMember) -> None:
    broker.faults.disconnect("SEND_MESSAGE_V2", after=True)
    member.start(RequestCode.SEND_MESSAGE_V2, SEND, b"paid")
    assert member.is_closed()
    assert [row.message.body for row in broker.messages("orders")] == [b"paid"]


def test_a_held_request_continues_when_it_is_released(broker: RunningBroker, member: RemotingMember) -> None:
    held = broker.faults.hold("GET_ROUTEINFO_BY_TOPIC")
    member.start(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
    wait_until(lambda: broker.faults.kept(held) == 1, "held")
    assert member.call(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0
    broker.faults.release(held)
    assert member.receive().is_response


def test_a_delay_follows_the_clock(broker: RunningBroker, member: RemotingMember) -> None:
    delayed = broker.faults.delay("GET_ROUTEINFO_BY_TOPIC", 5_000)
    member.start(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
    wait_until(lambda: broker.faults.kept(delayed) == 1, "delayed")
    broker.clock.advance(5_000)
    assert member.receive().is_response


def test_a_dropped_request_ends_with_its_connection(broker: RunningBroker, member: RemotingMember) -> None:
    dropped = broker.faults.drop("GET_ROUTEINFO_BY_TOPIC")
    member.start(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
    wait_until(lambda: broker.faults.kept(dropped) == 1, "dropped")
    member.close()
    wait_until(lambda: broker.faults.kept(dropped) == 0, "ended")


def test_codes_of_the_remoting_protocol_do_not_fit_other_calls(broker: RunningBroker) -> None:
    with pytest.raises(BadRequest, match="FLUSH_DISK_TIMEOUT is a code of the remoting protocol"):
        broker.faults.fail("SendMessage", "FLUSH_DISK_TIMEOUT")


# --- what is counted and logged ---------------------------------------------------------------------------------------


def test_requests_are_counted_by_their_names_and_codes(broker: RunningBroker, member: RemotingMember) -> None:
    read_route(member)
    read_route(member, "unknown")
    for code in (31_000, 31_001):
        member.call(code)
    counted = dict(broker._server.metrics.calls)
    assert counted == {
        ("GET_ROUTEINFO_BY_TOPIC", "SUCCESS"): 1,
        ("GET_ROUTEINFO_BY_TOPIC", "TOPIC_NOT_EXIST"): 1,
        ("UNKNOWN", "REQUEST_CODE_NOT_SUPPORTED"): 2,
    }


def test_requests_are_logged_like_calls(member: RemotingMember, caplog: pytest.LogCaptureFixture) -> None:
    member.beat("consumers")
    with caplog.at_level(logging.DEBUG, logger=f"{dispatch.__name__}.access"):
        read_route(member)
        # The response may come before its line is written. The next request comes after it.
        member.call(RequestCode.GET_BROKER_CLUSTER_INFO)
    fields = vars(caplog.records[0])
    assert caplog.records[0].getMessage() == "GET_ROUTEINFO_BY_TOPIC SUCCESS"
    assert {name: fields[name] for name in ("rpc", "client_id", "topic", "code")} == {
        "rpc": "GET_ROUTEINFO_BY_TOPIC",
        "client_id": "unlucky",
        "topic": "orders",
        "code": "SUCCESS",
    }


# --- the end ----------------------------------------------------------------------------------------------------------


def stop(broker: RunningBroker) -> None:
    """Stops the server as at the end of its process."""
    broker._loop.run(broker._server.stop())


def test_a_stopping_broker_answers_parked_pulls_and_closes_the_connection(
    broker: RunningBroker, member: RemotingMember
) -> None:
    member.start(RequestCode.PULL_MESSAGE, PULL)
    wait_until(lambda: len(broker._server._parker) == 1, "parked")
    stop(broker)
    assert member.receive().code == ResponseCode.PULL_NOT_FOUND
    assert member.is_closed()


def test_a_stopping_broker_disconnects_requests_that_rules_hold(broker: RunningBroker, member: RemotingMember) -> None:
    held = broker.faults.hold("GET_ROUTEINFO_BY_TOPIC")
    member.start(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
    wait_until(lambda: broker.faults.kept(held) == 1, "held")
    stop(broker)
    assert member.is_closed()


def test_a_process_that_ends_leaves_such_requests_and_their_connections(
    broker: RunningBroker, member: RemotingMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To cancel fifty thousand of them, and to close their connections, would take longer than the grace."""
    monkeypatch.setattr("rmqpull_broker.server.runtime.faults.Faults.close", lambda self: None)
    monkeypatch.setattr("rmqpull_broker.server.app.STOP_GRACE_S", 0.01)
    held = broker.faults.hold("GET_ROUTEINFO_BY_TOPIC")
    member.start(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
    wait_until(lambda: broker.faults.kept(held) == 1, "held")
    remoting = broker._server._remoting
    assert remoting is not None
    assert remoting.dispatcher is not None
    assert not broker._loop.run(broker._server.stop(cancels=False))
    assert (len(remoting.connections), len(remoting.dispatcher._tasks)) == (1, 1)
    assert broker._loop.run(remoting.stop(0))
    assert member.is_closed()


@pytest.mark.parametrize(("version", "code"), [(V5_3_1, ResponseCode.SUCCESS), (VERSION, ResponseCode.GO_AWAY)])
def test_requests_to_a_stopping_broker_are_sent_away(broker: RunningBroker, version: int, code: int) -> None:
    listener = broker._server._remoting
    assert listener is not None
    dispatcher = listener.dispatcher
    assert dispatcher is not None
    broker._loop.run(dispatcher.stop(0))
    responses: list[RemotingCommand | bytes] = []
    request = RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO, version=version)
    call = RemotingCall(request, NoPeer(), listener.sites[0])  # type: ignore[arg-type]
    broker._loop.call(lambda: dispatcher.handle(call, responses.append))
    (response,) = responses
    assert isinstance(response, RemotingCommand)
    assert response.code == code


class NoPeer:
    """A connection that nobody writes to."""

    channel_id = remote_address = "127.0.0.1:5"


# --- clients that need the VIP channel --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "version", "vip", "count"),
    [
        (LanguageCode.JAVA, V4_5_0, False, 1),
        (LanguageCode.JAVA, 0, False, 1),
        (LanguageCode.JAVA, V4_5_0 + 1, False, 0),
        (LanguageCode.GO, V4_5_0, False, 0),
        (LanguageCode.JAVA, V4_5_0, True, 0),
    ],
)
def test_an_old_java_client_is_told_of_the_flag_once(
    caplog: pytest.LogCaptureFixture, language: int, version: int, vip: bool, count: int
) -> None:
    with running_broker({"orders": 1}, remoting=True, remoting_vip=vip) as broker:
        for _ in range(2):
            with RemotingMember(broker.remoting_addresses[0], language=language, version=version) as member:
                assert [read_route(member), read_route(member)] == [0, 0]
    told = [record.message for record in caplog.records if "--remoting-vip" in record.message]
    assert len(told) == count
    assert all("VIP channel" in line and "vipChannelEnabled=false" in line for line in told)
