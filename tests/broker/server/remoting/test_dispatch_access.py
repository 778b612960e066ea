"""Who may send which request: each code that is served, from a peer that may not administrate and from one that may.

A broker that takes administration from another address than ours treats this machine as any other one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rmqpull_broker.core.admin.fault_rules import FaultReport
from rmqpull_broker.server.remoting.registry import list_handlers
from rmqpull_broker.testing import running_broker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.json_dialect import read_json, write_json
from tests.harness.remoting_member import RemotingMember

ELSEWHERE = "192.0.2.1"

OPEN = """
    SEND_MESSAGE SEND_MESSAGE_V2 SEND_BATCH_MESSAGE SEND_REPLY_MESSAGE SEND_REPLY_MESSAGE_V2 END_TRANSACTION
    RECALL_MESSAGE PULL_MESSAGE LITE_PULL_MESSAGE POP_MESSAGE ACK_MESSAGE BATCH_ACK_MESSAGE PEEK_MESSAGE
    CHANGE_MESSAGE_INVISIBLETIME NOTIFICATION POLLING_INFO CONSUMER_SEND_MSG_BACK UPDATE_CONSUMER_OFFSET HEART_BEAT
    UNREGISTER_CLIENT LOCK_BATCH_MQ UNLOCK_BATCH_MQ CHECK_CLIENT_CONFIG QUERY_ASSIGNMENT SET_MESSAGE_REQUEST_MODE

    QUERY_MESSAGE VIEW_MESSAGE_BY_ID QUERY_CONSUMER_OFFSET SEARCH_OFFSET_BY_TIMESTAMP GET_MAX_OFFSET GET_MIN_OFFSET
    GET_EARLIEST_MSG_STORETIME GET_ALL_TOPIC_CONFIG GET_TOPIC_CONFIG GET_SYSTEM_TOPIC_LIST_FROM_BROKER
    GET_TOPIC_STATS_INFO QUERY_CONSUME_QUEUE GET_ALL_SUBSCRIPTIONGROUP_CONFIG GET_SUBSCRIPTIONGROUP_CONFIG
    GET_CONSUMER_LIST_BY_GROUP GET_CONSUMER_CONNECTION_LIST GET_PRODUCER_CONNECTION_LIST GET_ALL_PRODUCER_INFO
    GET_ALL_MESSAGE_REQUEST_MODE GET_CONSUME_STATS GET_BROKER_CONSUME_STATS GET_ALL_CONSUMER_OFFSET
    QUERY_CONSUME_TIME_SPAN QUERY_TOPIC_CONSUME_BY_WHO QUERY_TOPICS_BY_CONSUMER QUERY_SUBSCRIPTION_BY_CONSUMER
    QUERY_CORRECTION_OFFSET INVOKE_BROKER_TO_GET_CONSUMER_STATUS GET_CONSUMER_RUNNING_INFO GET_BROKER_CONFIG
    GET_BROKER_RUNTIME_INFO VIEW_BROKER_STATS_DATA GET_BROKER_HA_STATUS
    POP_LITE_MESSAGE LITE_SUBSCRIPTION_CTL GET_BROKER_LITE_INFO GET_PARENT_TOPIC_INFO GET_LITE_TOPIC_INFO
    GET_LITE_CLIENT_INFO GET_LITE_GROUP_INFO TRIGGER_LITE_DISPATCH

    GET_ROUTEINFO_BY_TOPIC GET_BROKER_CLUSTER_INFO GET_BROKER_MEMBER_GROUP GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    GET_TOPICS_BY_CLUSTER GET_SYSTEM_TOPIC_LIST_FROM_NS GET_UNIT_TOPIC_LIST GET_HAS_UNIT_SUB_TOPIC_LIST
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST GET_KV_CONFIG GET_KVLIST_BY_NAMESPACE GET_NAMESRV_CONFIG
    REGISTER_BROKER UNREGISTER_BROKER REGISTER_TOPIC_IN_NAMESRV QUERY_DATA_VERSION
""".split()  # noqa: SIM905 (a page of names as a list)
"""What producers and consumers send, and what only reads. The last line is refused to everybody."""

OPEN_FOR_WHAT_IS_NEW = """
    UPDATE_AND_CREATE_TOPIC UPDATE_AND_CREATE_TOPIC_LIST UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST PUT_KV_CONFIG
""".split()  # noqa: SIM905 (as above)

ADMINISTRATION = """
    DELETE_TOPIC_IN_BROKER DELETE_TOPIC_IN_NAMESRV DELETE_SUBSCRIPTIONGROUP INVOKE_BROKER_TO_RESET_OFFSET
    CLONE_GROUP_OFFSET CONSUME_MESSAGE_DIRECTLY UPDATE_BROKER_CONFIG UPDATE_NAMESRV_CONFIG DELETE_EXPIRED_COMMITLOG
    CLEAN_EXPIRED_CONSUMEQUEUE CLEAN_UNUSED_TOPIC WIPE_WRITE_PERM_OF_BROKER ADD_WRITE_PERM_OF_BROKER DELETE_KV_CONFIG
    SWITCH_TIMER_ENGINE
""".split()  # noqa: SIM905 (as above)


@pytest.fixture(scope="module")
def stranger() -> Iterator[RemotingMember]:
    """A peer that may not administrate. Nothing that it sends changes its broker."""
    with (
        running_broker({"orders": 2}, remoting=True, admin_from=ELSEWHERE) as broker,
        RemotingMember(broker.remoting_addresses[0]) as member,
    ):
        yield member


def is_refused(response: RemotingCommand) -> bool:
    return response.code == ResponseCode.NO_PERMISSION and "--admin-from" in (response.remark or "")


def test_each_request_is_open_or_administration() -> None:
    listed = [*OPEN, *OPEN_FOR_WHAT_IS_NEW, *ADMINISTRATION]
    assert sorted(listed) == sorted(RequestCode(code).name for code in list_handlers())


@pytest.mark.parametrize("name", ADMINISTRATION)
def test_administration_is_refused_before_its_fields_are_read(stranger: RemotingMember, name: str) -> None:
    response = stranger.call(RequestCode[name])
    assert response.code == ResponseCode.NO_PERMISSION
    assert (response.remark or "").startswith(
        f"{name} is administration: this broker accepts it from {ELSEWHERE}, not "
    )
    assert "--admin-from 192.0.2.1,127.0.0.1" in (response.remark or "")


@pytest.mark.parametrize("name", [*OPEN, *OPEN_FOR_WHAT_IS_NEW])
def test_other_requests_are_open(stranger: RemotingMember, name: str) -> None:
    assert not is_refused(stranger.call(RequestCode[name]))


def test_peers_on_loopback_may_administrate_by_default() -> None:
    with (
        running_broker(remoting=True, admin_from="loopback") as broker,
        RemotingMember(broker.remoting_addresses[0]) as member,
    ):
        assert [name for name in ADMINISTRATION if is_refused(member.call(RequestCode[name]))] == []


def test_one_line_of_a_stranger_deletes_no_messages(caplog: pytest.LogCaptureFixture) -> None:
    """The properties that would delete every message, and refuse every client."""
    with (
        running_broker({"orders": 1}, remoting=True, admin_from=ELSEWHERE) as broker,
        RemotingMember(broker.remoting_addresses[0]) as stranger,
    ):
        broker.send("orders", b"kept")
        before = broker.look(lambda state: state.properties)
        for line in ("retentionBytes=1\nfileReservedTime=0", "brokerPermission=0", "maxMessageSize=1"):
            assert is_refused(stranger.call(RequestCode.UPDATE_BROKER_CONFIG, body=line.encode()))
        assert is_refused(stranger.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}))
        assert broker.look(lambda state: state.properties) == before
        assert [row.message.body for row in broker.messages("orders")] == [b"kept"]
    assert not caplog.records


def test_a_fault_rule_does_not_affect_what_is_refused() -> None:
    with (
        running_broker({"orders": 1}, remoting=True, admin_from=ELSEWHERE) as broker,
        RemotingMember(broker.remoting_addresses[0]) as stranger,
    ):
        broker.faults.fail("DELETE_TOPIC_IN_BROKER", "SYSTEM_BUSY")
        assert is_refused(stranger.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}))
        reports: list[FaultReport] = broker.faults.reports()
        assert [report.injected for report in reports] == [0]


# --- what everybody may create, and nobody else may change ------------------------------------------------------------

TOPIC = {"topic": "sales", "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
VALUE = {"namespace": "space", "key": "key", "value": "value"}


def listed(name: str, **settings: Any) -> bytes:
    return write_json({name: [settings]})


Request = tuple[int, dict[str, Any], bytes]
CREATIONS: list[tuple[Request, Request, str]] = [
    (
        (RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC | {"topicFilterType": "SINGLE_TAG"}, b""),
        (RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC | {"topicFilterType": "SINGLE_TAG", "perm": 0}, b""),
        "topic sales",
    ),
    (
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
            {},
            listed("topicConfigList", topicName="sales", readQueueNums=1, writeQueueNums=1),
        ),
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
            {},
            listed("topicConfigList", topicName="sales", readQueueNums=2, writeQueueNums=1),
        ),
        "topic sales",
    ),
    (
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, write_json({"groupName": "g", "retryMaxTimes": 3})),
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, write_json({"groupName": "g", "consumeEnable": False})),
        "group g",
    ),
    (
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {}, listed("groupConfigList", groupName="g")),
        (
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
            {},
            listed("groupConfigList", groupName="g", consumeEnable=False),
        ),
        "group g",
    ),
    (
        (RequestCode.PUT_KV_CONFIG, VALUE, b""),
        (RequestCode.PUT_KV_CONFIG, VALUE | {"value": "other"}, b""),
        "value key of namespace space",
    ),
]


def read_all(member: RemotingMember) -> list[Any]:
    """Everything that these requests can change."""
    codes = (
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    )
    values = member.call(RequestCode.GET_KV_CONFIG, {"namespace": "space", "key": "key"})
    return [*(read_json(member.call(code).body) for code in codes), values.fields.get("value")]


@pytest.mark.proves("Requests that change or delete what exists")
@pytest.mark.parametrize(("creation", "change", "what"), CREATIONS, ids=[RequestCode(c[0][0]).name for c in CREATIONS])
def test_what_is_new_or_the_same_is_open_and_a_change_is_not(creation: Request, change: Request, what: str) -> None:
    with (
        running_broker({"orders": 2}, remoting=True, admin_from=ELSEWHERE) as broker,
        RemotingMember(broker.remoting_addresses[0]) as stranger,
    ):
        before = read_all(stranger)
        assert stranger.call(*creation).code == ResponseCode.SUCCESS
        created = read_all(stranger)
        assert created != before
        assert stranger.call(*creation).code == ResponseCode.SUCCESS
        response = stranger.call(*change)
        assert is_refused(response)
        name = RequestCode(change[0]).name
        assert (response.remark or "").startswith(f"{name} would change {what}, which is administration: ")
        assert read_all(stranger) == created


@pytest.mark.parametrize(("creation", "change", "what"), CREATIONS, ids=[RequestCode(c[0][0]).name for c in CREATIONS])
def test_a_peer_that_may_administrate_changes_it(creation: Request, change: Request, what: str) -> None:
    with (
        running_broker({"orders": 2}, remoting=True, admin_from="127.0.0.1") as broker,
        RemotingMember(broker.remoting_addresses[0]) as member,
    ):
        assert member.call(*creation).code == ResponseCode.SUCCESS
        created = read_all(member)
        assert member.call(*change).code == ResponseCode.SUCCESS
        assert read_all(member) != created


def test_of_several_topics_none_is_created_if_one_would_change(stranger: RemotingMember) -> None:
    topics = [{"topicName": name, "readQueueNums": 5, "writeQueueNums": 5} for name in ("fresh", "orders")]
    body = write_json({"topicConfigList": topics})
    assert is_refused(stranger.call(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body))
    assert stranger.call(RequestCode.GET_TOPIC_CONFIG, {"topic": "fresh"}).code == ResponseCode.TOPIC_NOT_EXIST
