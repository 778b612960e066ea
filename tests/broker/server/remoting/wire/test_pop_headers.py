"""The headers of consumers that pop, as fields of commands."""

from __future__ import annotations

import pytest

from rmqpull_broker.server.remoting.wire.pop_headers import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeResponseHeader,
    NotificationResponseHeader,
    PopMessageRequestHeader,
    PopMessageResponseHeader,
)
from rmqpull_proto.remoting.header_fields import Header


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        (
            AckMessageRequestHeader(consumer_group="g", topic="t", queue_id=1, extra_info="0 1 2", offset=7),
            {"consumerGroup": "g", "topic": "t", "queueId": "1", "extraInfo": "0 1 2", "offset": "7"},
        ),
        (
            PopMessageResponseHeader(pop_time=1, invisible_time=2, revive_qid=999, rest_num=4, msg_offset_info="0 1 2"),
            {"popTime": "1", "invisibleTime": "2", "reviveQid": "999", "restNum": "4", "msgOffsetInfo": "0 1 2"},
        ),
        (
            ChangeInvisibleTimeResponseHeader(pop_time=1, invisible_time=2, revive_qid=3),
            {"popTime": "1", "invisibleTime": "2", "reviveQid": "3"},
        ),
        (NotificationResponseHeader(has_msg=True), {"hasMsg": "true", "pollingFull": "false"}),
    ],
)
def test_fields_have_apaches_names(header: Header, fields: dict[str, str]) -> None:
    assert header.to_fields() == fields


def test_a_pop_needs_no_born_time_and_no_filter() -> None:
    names = {"topic": "t", "queueId": "-1", "consumerGroup": "g", "maxMsgNums": "32"}
    pop = PopMessageRequestHeader.from_fields({**names, "invisibleTime": "60000", "pollTime": "0", "initMode": "1"})
    assert (pop.born_time, pop.exp, pop.order, pop.attempt_id) == (0, None, None, None)
