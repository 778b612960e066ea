"""What a read does when its ranges are gone and ``on_loss`` lets it go on."""

from __future__ import annotations

import pytest

from rmqpull_client.loss import Loss
from rmqpull_client.model import MessageQueue, QueueRange
from tests.client.transports.test_port import numbered
from tests.harness.served_broker import ServeBroker

QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.mark.parametrize(
    ("wanted", "offsets", "lost"),
    [
        (QueueRange(QUEUE, 0, 10), range(10), []),
        (QueueRange(QUEUE, 5, 14), range(5, 10), [(QUEUE, 10, 14)]),
        (QueueRange(QUEUE, 12, 14), [], [(QUEUE, 12, 14)]),
        (QueueRange(QUEUE._replace(queue_id=5), 3, 7), [], [(QUEUE._replace(queue_id=5), 3, 7)]),
        (QueueRange(QUEUE._replace(topic="gone"), 3, 7), [], [(QUEUE._replace(topic="gone"), 3, 7)]),
    ],
    ids=["all there", "cut", "beyond", "no queue", "no topic"],
)
def test_a_range_goes_on_behind_what_is_gone(
    serve: ServeBroker, wanted: QueueRange, offsets: range, lost: list[tuple[MessageQueue, int, int]]
) -> None:
    client, told = serve(batch=numbered(10)).client, list[Loss]()
    answers = list(client.read("g", [wanted], ["queueOffset"], on_loss=told.append))
    batches = [batch for answer in answers for entry in answer for batch in entry.batches]
    assert [at for batch in batches for at in batch.column("queueOffset").to_pylist()] == list(offsets)
    assert [loss[:3] for loss in told] == lost


def test_lost_rows_are_counted_where_the_server_counts(serve: ServeBroker, extensions: str) -> None:
    client = serve(batch=numbered(10)).client
    for _ in range(2):
        client.report_lost("query", [Loss(QUEUE, 3, 7, "gone")])
    assert client.query_bounds(["orders"], "query")["orders"].rows_lost == (
        {QUEUE: 4} if extensions == "columns" else {}
    )
    assert client.query_bounds(["orders"], "another")["orders"].rows_lost == {}
