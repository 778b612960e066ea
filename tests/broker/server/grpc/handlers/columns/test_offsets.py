"""CommitOffsets and ReportRowsLost over gRPC."""

from __future__ import annotations

import pytest

from rmqpull_broker.server.grpc.handlers.columns import offsets
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.rpc_client import RpcClient


@pytest.fixture(autouse=True, params=[offsets.QUEUES_AT_ONCE, 1], ids=["together", "in pieces"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether all queues of a request are stored together, or one after the other."""
    monkeypatch.setattr(offsets, "QUEUES_AT_ONCE", request.param)


# --- CommitOffsets ----------------------------------------------------------------------------------------------------


QUEUES = [v2.MessageQueue(topic=v2.Resource(name="orders"), id=queue_id) for queue_id in (0, 1)]


def offset_of(queue_id: int, offset: int, topic: str = "orders", broker_name: str = "broker-a") -> v1.QueueOffset:
    queue = v1.Queue(topic=topic, broker_name=broker_name, queue_id=queue_id)
    return v1.QueueOffset(queue=queue, offset=offset)


def commit(*offsets: v1.QueueOffset, group: str = "g") -> v1.CommitOffsetsRequest:
    return v1.CommitOffsetsRequest(group=group, offsets=offsets)


def test_offsets_of_many_queues_are_read_by_the_standard_protocol(client: RpcClient) -> None:
    assert client.code("CommitOffsets", commit(offset_of(0, 5), offset_of(1, 7))) == "OK"
    assert [client.get_offset("g", queue) for queue in QUEUES] == [("OK", 5), ("OK", 7)]


def test_setting_offsets_creates_the_group_even_when_there_are_none(client: RpcClient) -> None:
    assert client.code("CommitOffsets", commit(group="new")) == "OK"
    assert client.update_offset("new", QUEUES[0], 1) == "OK"


def test_a_later_offset_overwrites_also_with_less(client: RpcClient) -> None:
    for offset in (5, 3):
        client.call("CommitOffsets", commit(offset_of(0, offset)))
    assert client.get_offset("g", QUEUES[0]) == ("OK", 3)


def test_the_response_has_the_previous_offsets(client: RpcClient) -> None:
    """With it a query notices another one that commits to its group."""
    answers = [
        client.call("CommitOffsets", commit(offset_of(0, 5))),
        client.call("CommitOffsets", commit(offset_of(1, 7), offset_of(0, 6))),
        client.call("CommitOffsets", commit(offset_of(1, 8), group="another")),
        client.call("CommitOffsets", commit(offset_of(0, 9), offset_of(1, 9))),
    ]
    assert [list(answer.previous_offsets) for answer in answers] == [[-1], [-1, 5], [-1], [6, 7]]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (offset_of(0, 1, topic="unknown"), "TOPIC_NOT_FOUND"),
        (offset_of(2, 1), "BAD_REQUEST"),
        (offset_of(-1, 1), "BAD_REQUEST"),
        (offset_of(0, 1, broker_name="broker-z"), "BAD_REQUEST"),
        (offset_of(0, 1, broker_name=""), "BAD_REQUEST"),
        (offset_of(0, 1, topic=""), "BAD_REQUEST"),
        (offset_of(0, -1), "ILLEGAL_OFFSET"),
    ],
)
def test_one_bad_offset_refuses_all_of_them_and_creates_no_group(
    client: RpcClient, bad: v1.QueueOffset, code: str
) -> None:
    assert client.code("CommitOffsets", commit(offset_of(1, 7), bad)) == code
    assert client.get_offset("g", QUEUES[1])[0] == "OFFSET_NOT_FOUND"
    assert client.update_offset("g", QUEUES[1], 1) == "CONSUMER_GROUP_NOT_FOUND"


@pytest.mark.parametrize("group", ["", " ", "a.b", "g" * 121])
def test_a_bad_group_is_refused(client: RpcClient, group: str) -> None:
    assert client.code("CommitOffsets", commit(offset_of(0, 1), group=group)) == "ILLEGAL_CONSUMER_GROUP"


# --- ReportRowsLost ---------------------------------------------------------------------------------------------------


def report(*ranges: tuple[int, int, int], query_id: str = "q", batch_id: int = 0) -> v1.ReportRowsLostRequest:
    """Each range is (queue id, from offset, until offset) of the topic "orders"."""
    lost = [
        v1.LostRange(
            queue=v1.Queue(topic="orders", broker_name="broker-a", queue_id=queue_id),
            from_offset=from_offset,
            until_offset=until_offset,
        )
        for queue_id, from_offset, until_offset in ranges
    ]
    return v1.ReportRowsLostRequest(query_id=query_id, batch_id=batch_id, ranges=lost)


def lost_rows(client: RpcClient, query_id: str = "q") -> list[int]:
    return [queue.rows_lost for queue in client.bounds("orders", query_id).queues]


def test_reports_of_a_query_add_up_by_queue(client: RpcClient) -> None:
    for sent in (report((0, 0, 5), (1, 2, 3)), report((0, 7, 9), batch_id=1)):
        assert client.code("ReportRowsLost", sent) == "OK"
    assert lost_rows(client) == [7, 1]


def test_a_repeated_report_counts_once(client: RpcClient) -> None:
    for _ in range(3):
        assert client.code("ReportRowsLost", report((0, 0, 5))) == "OK"
    assert lost_rows(client) == [5, 0]


def test_lost_rows_are_separate_per_query(client: RpcClient) -> None:
    client.call("ReportRowsLost", report((0, 0, 5), query_id="another"))
    assert (lost_rows(client), lost_rows(client, "another"), lost_rows(client, "")) == ([0, 0], [5, 0], [0, 0])


def test_an_empty_report_is_accepted(client: RpcClient) -> None:
    assert client.code("ReportRowsLost", report()) == "OK"


def test_more_lost_rows_than_an_int64_are_returned_as_its_max(client: RpcClient) -> None:
    most = (1 << 63) - 1
    for batch_id in (0, 1):
        client.call("ReportRowsLost", report((0, 0, most), batch_id=batch_id))
    assert lost_rows(client) == [most, 0]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (report((0, 0, 1), query_id=""), "BAD_REQUEST"),
        (report((9, 0, 1)), "BAD_REQUEST"),
        (report((1, 0, 1), (0, 5, 5)), "ILLEGAL_OFFSET"),
        (report((1, 0, 1), (0, 5, 4)), "ILLEGAL_OFFSET"),
        (report((1, 0, 1), (0, -1, 4)), "ILLEGAL_OFFSET"),
    ],
)
def test_a_bad_report_is_not_counted(client: RpcClient, bad: v1.ReportRowsLostRequest, code: str) -> None:
    assert client.code("ReportRowsLost", bad) == code
    assert lost_rows(client) == [0, 0]


def test_an_unknown_topic_is_named(client: RpcClient) -> None:
    bad = report((0, 0, 1))
    bad.ranges[0].queue.topic = "unknown"
    assert client.code("ReportRowsLost", bad) == "TOPIC_NOT_FOUND"
