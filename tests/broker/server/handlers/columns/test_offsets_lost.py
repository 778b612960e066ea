"""ReportRowsLost over gRPC: what a query could not read; QueryBounds returns it."""

from __future__ import annotations

import pytest

from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.rpc_client import RpcClient


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
