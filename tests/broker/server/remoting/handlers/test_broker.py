"""The broker as a whole over the remoting protocol: properties, what it does, and what it cleans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from processes.apache.calls import CallRefused, Calls, Response
from rmqpull_broker.server.remoting.wire.admin_bodies import read_property_lines
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.json_dialect import read_json
from tests.harness.remoting_member import RemotingMember

PULL = {
    "consumerGroup": "readers", "topic": "orders", "queueId": 0, "queueOffset": 0, "maxMsgNums": 32, "sysFlag": 4,
    "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0,
}  # fmt: skip


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker({"orders": 1}, remoting=True, clock="manual") as running:
        yield running


def ask(broker: RunningBroker, code: int, body: Any = b"", **fields: Any) -> Response:
    return Calls().call(broker.remoting_addresses[0], code, fields, body)


def send(broker: RunningBroker) -> None:
    values = ("producers", "orders", "TBW102", 4, 0, 0, 1_700_000_000_000, 0, "", 0, "false")
    ask(broker, RequestCode.SEND_MESSAGE_V2, b"body", **dict(zip("abcdefghijk", values, strict=True)))


def pull(broker: RunningBroker) -> None:
    ask(broker, RequestCode.PULL_MESSAGE, **PULL)


def read_properties(broker: RunningBroker) -> dict[str, str]:
    return read_property_lines(ask(broker, RequestCode.GET_BROKER_CONFIG).body)


def test_a_property_changes_while_the_broker_runs(broker: RunningBroker) -> None:
    before = read_properties(broker)
    assert (before["brokerName"], before["brokerId"], before["maxMessageSize"]) == ("broker-a", "0", "4194304")
    assert f"{before['brokerIP1']}:{before['listenPort']}" == broker.remoting_addresses[0]
    ask(broker, RequestCode.UPDATE_BROKER_CONFIG, b"# a comment\nmaxMessageSize=3\n")
    assert read_properties(broker)["maxMessageSize"] == "3"
    with pytest.raises(CallRefused) as refused:
        send(broker)
    assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL


def test_a_changed_property_counts_for_pulls_that_were_repeated(broker: RunningBroker) -> None:
    send(broker)
    with RemotingMember(broker.remoting_addresses[0]) as member:
        member.beat("readers")

        def repeat_pull() -> set[int]:
            return {member.call(RequestCode.PULL_MESSAGE, {**PULL, "sysFlag": 0}).code for _ in range(3)}

        assert repeat_pull() == {ResponseCode.SUCCESS}
        for perm, expected in ((2, ResponseCode.NO_PERMISSION), (6, ResponseCode.SUCCESS)):
            member.call(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=%d" % perm)
            assert repeat_pull() == {expected}


@pytest.mark.proves("Changes by UPDATE_BROKER_CONFIG")
@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("brokerConfigPath=x", ResponseCode.NO_PERMISSION, "Can not update config in black list."),
        ("nothing=1", ResponseCode.INVALID_PARAMETER, "this broker has no property nothing"),
        ("flushDiskType=ASYNC_FLUSH", ResponseCode.INVALID_PARAMETER, "cannot change while the broker runs"),
        ("maxMessageSize=large", ResponseCode.INVALID_PARAMETER, "maxMessageSize is 'large': use an integer"),
        ("maxMessageSize=0", ResponseCode.INVALID_PARAMETER, "maxMessageSize is 0: expected 1 to"),
    ],
)
def test_other_changes_are_refused(broker: RunningBroker, line: str, code: int, words: str) -> None:
    before = read_properties(broker)
    with pytest.raises(CallRefused, match=words) as refused:
        ask(broker, RequestCode.UPDATE_BROKER_CONFIG, f"brokerPermission=4\n{line}\n".encode())
    assert refused.value.code == code
    assert read_properties(broker) == before


@pytest.mark.proves("Rates in GET_BROKER_RUNTIME_INFO")
def test_what_the_broker_does(broker: RunningBroker) -> None:
    for _ in range(3):
        send(broker)
    pull(broker)
    broker.clock.advance(minutes=1, seconds=1)
    table = read_json(ask(broker, RequestCode.GET_BROKER_RUNTIME_INFO).body)["table"]
    assert table["runtime"] == "[ 0 days, 0 hours, 1 minutes, 1 seconds ]"
    assert (table["brokerVersionDesc"], table["msgPutTotalTodayNow"], table["msgGetTotalTodayNow"]) == (
        "V5_5_0",
        "3",
        "3",
    )
    assert all(isinstance(value, str) for value in table.values())
    assert "brokerVersion" not in table


def test_stats_by_minute_hour_and_day(broker: RunningBroker) -> None:
    send(broker)
    pull(broker)
    for name, key in (
        ("TOPIC_PUT_NUMS", "orders"),
        ("GROUP_GET_NUMS", "orders@readers"),
        ("BROKER_PUT_NUMS", "DefaultCluster"),
    ):
        stats = read_json(ask(broker, RequestCode.VIEW_BROKER_STATS_DATA, statsName=name, statsKey=key).body)
        assert [stats[period]["sum"] for period in ("statsMinute", "statsHour", "statsDay")] == [1, 1, 1]
    with pytest.raises(CallRefused, match="The stats <TOPIC_PUT_NUMS> <other> not exist"):
        ask(broker, RequestCode.VIEW_BROKER_STATS_DATA, statsName="TOPIC_PUT_NUMS", statsKey="other")


def test_there_are_no_slaves(broker: RunningBroker) -> None:
    status = read_json(ask(broker, RequestCode.GET_BROKER_HA_STATUS).body)
    assert (status["master"], status["haConnectionInfo"], status["inSyncSlaveNums"]) == (True, [], 0)


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        RequestCode.CLEAN_UNUSED_TOPIC,
        RequestCode.DELETE_EXPIRED_COMMITLOG,
    ],
)
def test_cleaning_is_harmless(broker: RunningBroker, code: int) -> None:
    send(broker)
    ask(broker, code)
    assert len(broker.messages("orders")) == 1
