"""Look-ups of messages by clients of the remoting protocol (rules 4.6)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from processes.apache.calls import Calls, Response
from rmqpull_broker.server.remoting.wire.message_ids import parse_offset_msg_id
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_client.transports.remoting.messages.stored_columns import decode_columns
from rmqpull_client.transports.remoting.messages.stored_messages import locate_records
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.properties import encode_properties

EVER = {"beginTimestamp": 0, "endTimestamp": (1 << 63) - 1}
NOTHING = {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    """A broker with 70 messages that have key ``k``; their ids are ``id-0`` to ``id-69``."""
    with running_broker({"orders": 1}, remoting=True) as running:
        for number in range(70):
            send(running, f"id-{number}")
        yield running


def call(broker: RunningBroker, code: int, fields: dict[str, object]) -> Response:
    return Calls().call(broker.remoting_addresses[0], code, fields, b"", (1, 22))


def send(broker: RunningBroker, msg_id: str) -> str:
    """Sends a message, and returns the id that the broker gives it."""
    text = encode_properties({"UNIQ_KEY": msg_id, "KEYS": "k"})
    values = ("producers", "orders", "TBW102", 4, 0, 0, 1_700_000_000_000, 0, text, 0, "false")
    fields = dict(zip("abcdefghijk", values, strict=True))
    sent = Calls().call(broker.remoting_addresses[0], RequestCode.SEND_MESSAGE_V2, fields, msg_id.encode())
    return sent.fields["msgId"]


def read_bodies(response: Response) -> list[str]:
    ends = np.array([len(response.body)])
    rows = decode_columns(locate_records(response.body, np.array([0]), ends), ["body"])
    return [body.decode() for body in rows.column("body").to_pylist()]


def test_a_message_is_found_by_the_id_that_its_broker_gave(broker: RunningBroker) -> None:
    offset = parse_offset_msg_id(send(broker, "id-here")).physical_offset
    for more in ({}, {"topic": "orders"}, {"topic": "another"}):
        assert read_bodies(call(broker, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset, **more})) == ["id-here"]


@pytest.mark.parametrize(
    ("fields", "remark"),
    [
        ({"offset": -1}, "can not find message by the offset, -1"),
        ({"offset": 10**15}, "can not find message by the offset, 1000000000000000"),
        ({}, "field offset is missing in ViewMessageRequestHeader, expected a number of 64 bits"),
    ],
)
def test_there_is_no_message_at_another_place(broker: RunningBroker, fields: dict[str, object], remark: str) -> None:
    response = call(broker, RequestCode.VIEW_MESSAGE_BY_ID, fields)
    assert (response.code, response.remark) == (1, remark)


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ({"maxNum": 5}, 5),
        ({"maxNum": 64}, 64),
        ({"maxNum": 100}, 64),
        ({"maxNum": 5, "_UNIQUE_KEY_QUERY": "true"}, 32),
        ({"maxNum": 5, "_UNIQUE_KEY_QUERY": "TRUE"}, 5),
        ({"maxNum": 5, "indexType": "U"}, 5),
    ],
)
def test_a_query_by_key_returns_the_newest_64_messages_at_most(
    broker: RunningBroker, asked: dict[str, object], count: int
) -> None:
    response = call(broker, RequestCode.QUERY_MESSAGE, {"topic": "orders", "key": "k", **EVER, **asked})
    newest = [row.message.body.decode() for row in broker.messages("orders")][-count:]
    assert read_bodies(response) == newest
    assert int(response.fields["indexLastUpdateTimestamp"]) == broker.messages("orders")[-1].store_timestamp_ms


def test_a_query_by_id_is_one_by_key(broker: RunningBroker) -> None:
    for more in ({}, {"_UNIQUE_KEY_QUERY": "true"}):
        fields = {"topic": "orders", "key": "id-7", "maxNum": 1, **EVER, **more}
        assert read_bodies(call(broker, RequestCode.QUERY_MESSAGE, fields)) == ["id-7"]


@pytest.mark.parametrize("more", [{"key": "other"}, {"topic": "none"}, {"maxNum": 0}, {"endTimestamp": 5}])
def test_a_query_may_find_nothing(broker: RunningBroker, more: dict[str, object]) -> None:
    response = call(broker, RequestCode.QUERY_MESSAGE, {"topic": "orders", "key": "k", "maxNum": 1, **EVER, **more})
    expected = (22, "can not find message, maybe time range not correct", NOTHING)
    assert (response.code, response.remark, response.fields) == expected


@pytest.mark.parametrize("more", [{"maxNum": -1}, {"maxNum": "x"}])
def test_a_query_with_a_wrong_number_is_refused(broker: RunningBroker, more: dict[str, object]) -> None:
    response = call(broker, RequestCode.QUERY_MESSAGE, {"topic": "orders", "key": "k", **EVER, **more})
    assert (response.code, response.fields) == (1, {})
