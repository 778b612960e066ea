"""The rows of a call become requests: batches, and single messages where brokers take no batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.remoting.sending.call_requests import Content, make_requests
from rmqpull_client.transports.remoting.sending.outgoing import MessageIds
from rmqpull_client.transports.remoting.sending.send_request import SendCall, SendRequest
from rmqpull_proto.columns import PUBLISH_SCHEMA
from rmqpull_proto.remoting.properties import decode_properties

NOW_MS = 1_772_366_400_000
LATER_US = (NOW_MS + 60_000) * 1_000


class FakeTopics:
    """Topics have a queue, but ``wide`` has four. Those that begin with ``old`` have no timer. ``fifo`` has a type.

    ``compacted`` keeps the newest message of each key.
    """

    def list_queues(self, topic: str) -> Sequence[MessageQueue]:
        return [MessageQueue(topic, "a", number) for number in range(4 if topic == "wide" else 1)]

    def query_message_types(self, topic: str) -> frozenset[str]:
        return frozenset({"FIFO"} if topic == "fifo" else {"NORMAL", "FIFO", "DELAY"})

    def is_compacted(self, topic: str) -> bool:
        return topic == "compacted"

    def has_timer(self, topic: str) -> bool:
        return not topic.startswith("old")


def make(
    *rows: dict[str, Any], topics: Sequence[tuple[str, int]] = (), by_keys: bool = False
) -> tuple[list[SendRequest], dict[int, str]]:
    given = [{"body": b"x"} | row for row in rows]
    names = dict.fromkeys(name for row in given for name in row)
    columns = {name: pa.array([row.get(name) for row in given], PUBLISH_SCHEMA.field(name).type) for name in names}
    call, parts = SendCall(), topics or [("orders", len(rows))]
    ids = MessageIds("127.0.0.1", 1)
    requests = make_requests(call, parts, pa.record_batch(columns), by_keys, FakeTopics(), ids, NOW_MS)
    assert all(request.call is call for request in requests)
    return requests, call.reasons


def content_of(request: SendRequest) -> Content:
    assert isinstance(request.content, Content)
    return request.content


def summarize(requests: Sequence[SendRequest]) -> list[tuple[str, int | None, list[int]]]:
    """Returns topic, ordered queue and rows of each request."""
    return [
        (request.topic, request.ordered_queue and request.ordered_queue.queue_id, list(request.content.rows))
        for request in requests
    ]


def test_rows_for_any_queue_are_one_batch() -> None:
    requests, reasons = make({"body": b"1"}, {"body": b"2"}, {"body": b"3"})
    assert (summarize(requests), reasons) == ([("orders", None, [0, 1, 2])], {})
    body = bytes(content_of(requests[0]).make_body())
    assert [body.count(each) for each in (b"\x00\x001", b"\x00\x002", b"\x00\x003")] == [0, 0, 0]
    assert len(body) == sum(22 + 1 + len("UNIQ_KEY\x01\x02") + 32 for _ in range(3))
    assert content_of(requests[0]).get_properties() is None


def test_rows_for_any_queue_are_spread_over_all_queues() -> None:
    requests, _ = make(*({} for _ in range(8)), topics=[("wide", 8)])
    assert summarize(requests) == [("wide", None, [first, first + 1]) for first in range(0, 8, 2)]


def test_a_single_row_is_no_batch() -> None:
    (request,), _ = make({"body": b"1", "tags": "T"})
    assert not request.is_batch
    assert content_of(request).make_body() == b"1"
    properties = decode_properties(content_of(request).get_properties() or "")
    assert properties["TAGS"] == "T"
    assert len(properties["UNIQ_KEY"]) == 32


def test_rows_of_several_topics_are_in_requests_of_their_own() -> None:
    requests, _ = make({}, {}, {}, topics=[("orders", 1), ("paid", 2)])
    assert summarize(requests) == [("orders", None, [0]), ("paid", None, [1, 2])]


def test_rows_of_a_group_or_with_keys_have_an_ordered_queue() -> None:
    rows: list[dict[str, Any]] = [{"messageGroup": "g", "keys": ["k"]}, {"keys": ["k"]}, {}]
    assert [ordered is None for _, ordered, _ in summarize(make(*rows)[0])] == [True, False]
    assert [ordered is None for _, ordered, _ in summarize(make(*rows[1:], by_keys=True)[0])] == [True, False]


def test_delayed_rows_are_alone_with_the_property_of_their_brokers() -> None:
    delayed = {"deliveryTimestamp": LATER_US}
    requests, _ = make({}, delayed, {}, delayed, topics=[("orders", 2), ("old", 2)])
    assert summarize(requests) == [("orders", None, [0]), ("orders", None, [1]), ("old", None, [2]), ("old", None, [3])]
    texts = [decode_properties(content_of(request).get_properties() or "") for request in requests]
    assert [text.get("TIMER_DELIVER_MS") for text in texts] == [None, str(LATER_US // 1_000), None, None]
    assert [text.get("DELAY") for text in texts] == [None, None, None, "5"]


def test_a_delay_that_brokers_without_a_timer_do_not_have_is_illegal() -> None:
    too_late = {"deliveryTimestamp": LATER_US + 7_200_000_000}
    requests, reasons = make({}, too_late, too_late, topics=[("orders", 2), ("old", 1)])
    assert [rows for *_, rows in summarize(requests)] == [[0], [1]]
    assert list(reasons) == [2]


def test_rows_for_a_retry_topic_and_those_with_large_properties_are_alone() -> None:
    assert [rows for *_, rows in summarize(make({}, {}, topics=[("%RETRY%g", 2)])[0])] == [[0], [1]]
    large = {"properties": [("a", "v" * 16_384)]}
    assert [rows for *_, rows in summarize(make({}, large, {})[0])] == [[0, 2], [1]]


def test_rows_with_bodies_of_different_kinds_are_in_different_requests() -> None:
    requests, _ = make({"bodyEncoding": 1}, {"bodyEncoding": 0x301}, {"bodyEncoding": 1}, {"bodyEncoding": 0x301})
    assert [rows for *_, rows in summarize(requests)] == [[0, 2], [1, 3]]
    assert [content_of(request).sys_flag for request in requests] == [0, 0x301]


def test_illegal_rows_are_in_no_request() -> None:
    names = {"brokerName": "a", "queueId": 9}
    rows: list[dict[str, Any]] = [{}, {"body": b""}, {"properties": [("a", "v" * 40_000)]}, names, {"body": None}, {}]
    requests, reasons = make(*rows)
    assert [rows for *_, rows in summarize(requests)] == [[0, 5]]
    assert sorted(reasons) == [1, 2, 3, 4]
    assert reasons[2].startswith("its properties have 400")
    assert reasons[3].startswith("it names queue 9 of broker a")
    assert make({"body": b""})[0] == []


def test_rows_of_another_type_than_their_topic_are_illegal() -> None:
    requests, reasons = make({}, {"messageGroup": "g"}, topics=[("fifo", 2)])
    assert [rows for *_, rows in summarize(requests)] == [[1]]
    assert reasons == {0: "topic fifo takes only messages of type FIFO, and this is one of type NORMAL"}


def test_a_compaction_topic_takes_no_rows_without_keys() -> None:
    rows: list[dict[str, Any]] = [{"keys": ["k"]}, {"keys": []}, {"keys": None}, {"keys": ["k", "l"]}]
    _, reasons = make(*rows, topics=[("compacted", 4)])
    lost = "topic compacted has cleanup.policy=COMPACTION, and loses messages without keys"
    assert reasons == {1: lost, 2: lost}
    assert make({}, topics=[("compacted", 1)])[1] == {0: lost}
    assert make(*rows, topics=[("orders", 4)])[1] == {}


def test_no_rows_are_no_request() -> None:
    assert make(topics=[])[0] == []


@pytest.mark.parametrize("name", ["bornHost", "bornTimestamp"])
def test_columns_that_brokers_set_are_refused(name: str) -> None:
    given = {"bornHost": "10.0.0.1:9", "bornTimestamp": LATER_US}
    with pytest.raises(OptionError, match=f"Column {name} cannot be sent"):
        make({name: given[name]})
    assert make({name: None})[0]


def test_a_refused_batch_is_halved() -> None:
    (request,), _ = make(*({"body": b"%d" % number} for number in range(5)))
    first, second = content_of(request).halve()
    assert (list(first.rows), list(second.rows)) == ([0, 1], [2, 3, 4])
    assert bytes(first.make_body()) + bytes(second.make_body()) == bytes(content_of(request).make_body())
