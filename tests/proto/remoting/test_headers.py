"""The declared tables of headers, as fields of commands."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.header_fields import Header, Int, Long
from rmqpull_proto.remoting.headers import (
    CreateTopicRequestHeader,
    OffsetResponseHeader,
    PullMessageRequestHeader,
    SearchOffsetRequestHeader,
    UnregisterClientRequestHeader,
)
from tests.harness.header_tables import REQUEST_HEADERS, RESPONSE_HEADERS
from tests.harness.hostile_input import limit_cpu

HEADERS = sorted({*REQUEST_HEADERS.values(), *RESPONSE_HEADERS.values()}, key=lambda header: header.__name__)
VALUES: dict[object, st.SearchStrategy[Any]] = {
    str: st.text(max_size=8),
    bool: st.booleans(),
    Int: st.integers(-(2**31), 2**31 - 1),
    Long: st.integers(-(2**63), 2**63 - 1),
}


def draw_header(header: type[Header]) -> st.SearchStrategy[Header]:
    """Any values of a header's declared types."""
    kinds = get_type_hints(header, include_extras=True)
    drawn: dict[str, st.SearchStrategy[Any]] = {}
    for declared in fields(header):
        kind = kinds[declared.name]
        optional = kind not in VALUES
        value = VALUES[next(member for member in get_args(kind) if member in VALUES) if optional else kind]
        drawn[declared.name] = st.none() | value if optional else value
    return st.builds(header, **drawn)


@given(data=st.data(), header=st.sampled_from(HEADERS))
def test_a_header_survives(data: st.DataObject, header: type[Header]) -> None:
    value = data.draw(draw_header(header))
    assert header.from_fields({**value.to_fields(), "unknown": "field"}) == value


@pytest.mark.edge
@given(data=st.data(), header=st.sampled_from(HEADERS), texts=st.dictionaries(st.text(max_size=9), st.text(max_size=9)))
@limit_cpu
def test_any_fields_give_a_header_or_an_error(data: st.DataObject, header: type[Header], texts: dict[str, str]) -> None:
    received = {**data.draw(draw_header(header)).to_fields(), **texts}
    damaged = {
        name: data.draw(st.sampled_from([text, "", "x", "1_0", " 1", "9" * 5000])) for name, text in received.items()
    }
    assert is_header_or_error(header, damaged)


def is_header_or_error(header: type[Header], received: dict[str, str]) -> bool:
    try:
        header.from_fields(received)
    except WireError as error:
        return len(str(error)) < 200
    return True


def test_a_pull_request_has_rocketmqs_names() -> None:
    pull = PullMessageRequestHeader(
        consumer_group="g",
        topic="t",
        queue_id=0,
        queue_offset=1,
        max_msg_nums=32,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )
    assert pull.to_fields() == {
        "consumerGroup": "g",
        "topic": "t",
        "queueId": "0",
        "queueOffset": "1",
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }


def test_a_number_may_be_a_member_of_an_enum() -> None:
    assert OffsetResponseHeader(offset=RequestCode.PULL_MESSAGE).to_fields() == {"offset": "11"}


def test_names_that_do_not_follow_the_rule() -> None:
    assert UnregisterClientRequestHeader(client_id="c").to_fields() == {"clientID": "c"}


def test_what_is_optional() -> None:
    optional = {declared.name for declared in fields(CreateTopicRequestHeader) if declared.default is not MISSING}
    assert optional == {"ns", "nsd", "bname", "oway", "lo", "topic_sys_flag", "order", "attributes", "force"}
    assert SearchOffsetRequestHeader.from_fields({"topic": "t", "queueId": "1", "timestamp": "2"}).boundary_type is None


def test_every_response_belongs_to_a_request() -> None:
    assert RESPONSE_HEADERS.keys() <= REQUEST_HEADERS.keys() <= set(RequestCode)
