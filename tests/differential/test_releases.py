"""Requests that RocketMQ 5.3.3 and 5.5.0 answer differently. The emulator answers as 5.5.0.

Each row is judged by a real broker of the release that the tests run with.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from processes.apache.calls import Calls
from processes.apache.cluster import ApacheCluster
from processes.apache.releases import RELEASE_5_3, RELEASE_5_5, Release
from rmqpull_broker.testing import running_broker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.json_dialect import read_json

ANY = tuple(code for code in ResponseCode if code)
NOT_LEGAL = "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
LONG = "x" * 128


class Answer(NamedTuple):
    """What is compared of a response."""

    code: int
    remark: str


class Row(NamedTuple):
    """A request, and the answer of each release. ``fields`` and texts may name the test's own topic: ``{own}``."""

    code: int
    fields: Mapping[str, Any]
    body: Any
    of_5_3: Answer
    of_5_5: Answer


def unsupported(code: int) -> Answer:
    return Answer(3, f" request type {code} not supported")


def new(code: int, fields: Mapping[str, Any], answer: Answer, body: Any = None) -> Row:
    """Returns a row of a request that 5.5.0 has and 5.3.3 has not."""
    return Row(code, fields, body, unsupported(code), answer)


def topic(name: str) -> dict[str, Any]:
    numbers = {"readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicSysFlag": 0}
    return {"topic": name, "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "order": "false", **numbers}


OK = Answer(0, "")
CREATED = Answer(0, "not set any response code")
TOO_LONG = Answer(29, "The specified topic is longer than topic max length.")
NO_GROUP = Answer(26, "No group in this broker")
POP = {"clientId": "c", "consumerGroup": "{own}-g", "topic": "{own}", "maxMsgNum": 1, "invisibleTime": 1, "pollTime": 1}
ROWS = {
    # --- requests and their refusals
    "timers: no engine": new(5001, {}, Answer(29, "param error, extFields is null")),
    "timers: an unknown engine": new(5001, {"E_T": "X"}, Answer(29, "param error")),
    "timers: RocksDB": new(
        5001, {"E_T": "R"}, Answer(29, "timerRocksDBEnable must be configured true when broker start")
    ),
    "timers: the wheel": new(5001, {"E_T": "F"}, Answer(0, "switch timer engine success")),
    "lite: a pop": new(200_070, {**POP, "bornTime": 0}, Answer(29, "the topic [{own}] message type not match")),
    "lite: a subscription without a body": new(200_071, {}, Answer(604, "Request body is null.")),
    "lite: no subscriptions": new(200_071, {}, Answer(604, "LiteSubscriptionCtlRequestBody is empty."), {}),
    "lite: a parent that is missing": new(200_075, {"topic": "none"}, Answer(17, "Topic [none] not exist.")),
    "lite: a topic that is no parent": new(200_075, {"topic": "{own}"}, Answer(29, "Topic [{own}] type not match.")),
    "lite: a lite topic": new(
        200_076, {"parentTopic": "{own}", "liteTopic": "l"}, Answer(29, "Topic [{own}] type not match.")
    ),
    "lite: a client": new(
        200_077, {"parentTopic": "{own}", "group": "g", "clientId": "c"}, Answer(29, "Topic [{own}] type not match.")
    ),
    "lite: a group": new(200_078, {"group": "{own}-g"}, Answer(29, "Group [{own}-g] is not a LITE group.")),
    "lite: a dispatch": new(200_079, {"group": "{own}-g"}, Answer(29, "Group [{own}-g] is not a LITE group.")),
    # --- names
    "topics: an illegal name": Row(
        *(17, topic("a b"), None),
        Answer(29, f"The specified topic {NOT_LEGAL}"),
        Answer(29, f"The specified topic: a b, {NOT_LEGAL}"),
    ),
    "topics: a long name": Row(
        *(17, topic(LONG), None),
        TOO_LONG,
        Answer(29, f"The specified topic: {LONG}, is longer than topic max length: 127"),
    ),
    "topics: a retry topic with a long name": Row(17, topic("%RETRY%" + LONG), None, TOO_LONG, CREATED),
    "topics: a dead letter topic with a name that is too long": Row(
        *(17, topic("%DLQ%" + LONG * 2), None),
        TOO_LONG,
        Answer(
            29,
            f"The specified topic is DLQ or Retry topic: %DLQ%{LONG * 2}, and it's longer than topic max length: 255",
        ),
    ),
    "groups: an illegal name": Row(
        *(200, {}, {"groupName": "a b"}), OK, Answer(29, f"The specified group: a b, {NOT_LEGAL}")
    ),
    "groups: a long name": Row(
        *(200, {}, {"groupName": LONG}),
        OK,
        Answer(29, f"The specified group: {LONG}, is longer than group max length: 120"),
    ),
    "groups: no name": Row(200, {}, {"groupName": ""}, OK, Answer(29, "The specified group is blank.")),
    "groups: one with a long name is not created": Row(352, {"group": "y" * 121}, None, OK, NO_GROUP),
    "groups: one without a name is not created": Row(352, {"group": ""}, None, OK, NO_GROUP),
}


@pytest.fixture(scope="module")
def servers(apache: ApacheCluster, apache_release: Release) -> Iterator[Mapping[str, str]]:
    """The addresses of brokers: a real one of the release, and the emulator if that answers as this release."""
    if apache_release not in (RELEASE_5_3, RELEASE_5_5):
        pytest.skip("the rows are those of 5.3.3 and 5.5.0")
    with running_broker(remoting=True) as emulator:
        addresses = {"apache": apache.brokers[0].address}
        if apache_release is RELEASE_5_5:
            addresses["emulator"] = emulator.remoting_addresses[0]
        yield addresses


def ask(address: str, row: Row, own: str) -> Answer:
    fields = {name: str(value).replace("{own}", own) for name, value in row.fields.items()}
    body = b"" if row.body is None else json.dumps(row.body).encode()
    response = Calls().call(address, row.code, fields, body, ANY)
    return Answer(response.code, response.remark)


@pytest.mark.parametrize("name", ROWS)
def test_a_release_answers_as_its_column_says(servers: Mapping[str, str], apache_release: Release, name: str) -> None:
    row, own = ROWS[name], f"r{uuid.uuid4().hex[:10]}"
    expected = row.of_5_3 if apache_release is RELEASE_5_3 else row.of_5_5
    expected = expected._replace(remark=expected.remark.replace("{own}", own))
    for address in servers.values():
        Calls().call(address, RequestCode.UPDATE_AND_CREATE_TOPIC, topic(own))
    assert {kind: ask(address, row, own) for kind, address in servers.items()} == dict.fromkeys(servers, expected)


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_5_5_creates_a_deleted_group_again_unless_its_offsets_are_deleted(
    servers: Mapping[str, str], apache_release: Release, is_cleaned: bool
) -> None:
    """It asks whether the group consumes lite topics when it has deleted it, and that creates groups."""
    group = f"r{uuid.uuid4().hex[:10]}"
    settings = json.dumps({"groupName": group, "retryMaxTimes": 3}).encode()
    for address in servers.values():
        call = Calls().call
        call(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=settings)
        fields = {"groupName": group, "cleanOffset": str(is_cleaned).lower()}
        call(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)
        listed = read_json(call(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body)["subscriptionGroupTable"]
        found = listed[group]["retryMaxTimes"] if group in listed else None
        assert found == (16 if apache_release is RELEASE_5_5 and not is_cleaned else None)


@pytest.mark.parametrize(
    ("code", "what", "table"), [(21, "Topic", "topicConfigTable"), (201, "Group", "subscriptionGroupTable")]
)
def test_5_5_answers_with_a_page_of_all_topics_and_groups(
    servers: Mapping[str, str], apache_release: Release, code: int, what: str, table: str
) -> None:
    has_pages = apache_release is RELEASE_5_5
    for address in servers.values():
        call = Calls().call
        for number in range(3):
            name = f"page-{number}"
            call(address, RequestCode.UPDATE_AND_CREATE_TOPIC, topic(name))
            body = json.dumps({"groupName": name}).encode()
            call(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        whole = call(address, code)
        names = sorted(read_json(whole.body)[table])
        assert whole.fields.get(f"total{what}Num") == (str(len(names)) if has_pages else None)
        asked = {f"{what.lower()}Seq": 0, f"max{what}Num": 2, "dataVersion": ""}
        first = read_json(call(address, code, asked).body)
        asked |= {f"{what.lower()}Seq": 2, "dataVersion": json.dumps(first["dataVersion"])}
        second = read_json(call(address, code, asked).body)
        expected = (names[:2], names[2:4]) if has_pages else (names, names)
        assert (sorted(first[table]), sorted(second[table])) == expected
