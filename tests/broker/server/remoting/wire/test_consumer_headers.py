"""The names of fields in requests that brokers forward to consumers."""

from __future__ import annotations

import pytest

from rmqpull_broker.server.remoting.wire.consumer_headers import (
    CloneGroupOffsetRequestHeader,
    ConsumeMessageDirectlyRequestHeader,
    ConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
    QueryCorrectionOffsetRequestHeader,
)
from rmqpull_proto.remoting.header_fields import Header


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        (
            GetConsumerStatusRequestHeader(topic="t", group="g", client_addr="c"),
            {"topic": "t", "group": "g", "clientAddr": "c"},
        ),
        (
            ConsumerRunningInfoRequestHeader(consumer_group="g", client_id="c", jstack_enable=True),
            {"consumerGroup": "g", "clientId": "c", "jstackEnable": "true"},
        ),
        (
            ConsumeMessageDirectlyRequestHeader(
                consumer_group="g", client_id="c", msg_id="m", broker_name="b", topic_sys_flag=0, group_sys_flag=0
            ),
            {
                "consumerGroup": "g",
                "clientId": "c",
                "msgId": "m",
                "brokerName": "b",
                "topicSysFlag": "0",
                "groupSysFlag": "0",
            },
        ),
        (
            CloneGroupOffsetRequestHeader(src_group="g", dest_group="h", topic="t"),
            {"srcGroup": "g", "destGroup": "h", "topic": "t", "offline": "false"},
        ),
        (
            QueryCorrectionOffsetRequestHeader(topic="t", filter_groups="a,b", compare_group="g"),
            {"topic": "t", "filterGroups": "a,b", "compareGroup": "g"},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_fields_have_apaches_names(header: Header, fields: dict[str, str]) -> None:
    assert header.to_fields() == fields
    assert type(header).from_fields(fields) == header
