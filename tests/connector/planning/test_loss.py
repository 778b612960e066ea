"""Which messages count as lost when a micro-batch is planned."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.planning.loss import resume
from pyspark_rmqpull.planning.offsets import QueueOffsets
from rmqpull_client.errors import DataLoss
from rmqpull_client.loss import Loss, find_loss, refuse_loss
from rmqpull_client.model import Bounds, MessageQueue, TopicBounds

A0, A1 = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1)
ADVICE = "If the query may skip them, set option failOnDataLoss to false"


def topics(creation_id: str | None = "first", **queues: Bounds) -> dict[str, TopicBounds]:
    """The topic "orders" with queues q0 and q1 as given."""
    return {"orders": TopicBounds(creation_id, {MessageQueue("orders", "a", int(q[1:])): b for q, b in queues.items()})}


@pytest.mark.parametrize(
    ("position", "now"),
    [
        pytest.param(QueueOffsets({A0: 5}), topics(q0=Bounds(5, 9)), id="at the begin"),
        pytest.param(QueueOffsets({A0: 9}), topics(q0=Bounds(5, 9)), id="at the end"),
        pytest.param(QueueOffsets({A0: 7}), topics(q0=Bounds(5, 9), q1=Bounds(3, 4)), id="a new queue that has aged"),
        pytest.param(QueueOffsets({A0: 7}, creation_ids={"orders": "first"}), topics(q0=Bounds(5, 9)), id="same topic"),
        pytest.param(
            QueueOffsets({A0: 7}, creation_ids={"orders": "first"}),
            topics(None, q0=Bounds(5, 9)),
            id="a server that has no creation ids",
        ),
        pytest.param(QueueOffsets({A0: 7}), topics("second", q0=Bounds(5, 9)), id="no creation id in the checkpoint"),
        pytest.param(QueueOffsets(), topics(), id="no position yet"),
    ],
)
def test_what_is_no_loss(position: QueueOffsets, now: dict[str, TopicBounds]) -> None:
    assert resume(position, now, {}, refuse_loss) == {}


@pytest.mark.parametrize(
    ("position", "now", "complaint"),
    [
        pytest.param(
            QueueOffsets({A0: 5}, creation_ids={"orders": "first"}),
            topics("second", q0=Bounds(0, 9)),
            "Topic orders was deleted and created again: its creation id was first and is second. ",
            id="created again, with a higher end",
        ),
        pytest.param(
            QueueOffsets({A0: 5}),
            topics(q0=Bounds(8, 9)),
            "3 messages of queue orders/a/0 are lost: the query needs offset 5, and the broker has [8, 9). ",
            id="aged out",
        ),
        pytest.param(
            QueueOffsets({A0: 5}),
            topics(q0=Bounds(0, 4)),
            "Queue orders/a/0 ends at offset 4, before offset 5, which is the next one to read: ",
            id="cut",
        ),
        pytest.param(
            QueueOffsets({A0: 5, A1: 6}),
            topics(q0=Bounds(0, 9)),
            "Queue orders/a/1 is gone; the query stood at offset 6 of it. ",
            id="a queue less",
        ),
        pytest.param(
            QueueOffsets({A0: 5}), {}, "Queue orders/a/0 is gone; the query stood at offset 5 of it. ", id="no topic"
        ),
    ],
)
def test_what_is_a_loss(position: QueueOffsets, now: dict[str, TopicBounds], complaint: str) -> None:
    with pytest.raises(DataLoss) as loss:
        resume(position, now, {}, refuse_loss)
    assert str(loss.value).startswith(complaint)
    assert ADVICE in str(loss.value)


@pytest.mark.parametrize("offset", [5, 7, 9])
def test_offsets_from_the_first_to_the_next_are_inside(offset: int) -> None:
    assert find_loss(A0, offset, Bounds(5, 9)) is None


@pytest.mark.parametrize(("offset", "lost"), [(4, (4, 5)), (0, (0, 5)), (10, (10, 10))])
def test_offsets_before_and_beyond_are_outside(offset: int, lost: tuple[int, int]) -> None:
    loss = find_loss(A0, offset, Bounds(5, 9))
    assert loss is not None
    assert (loss.queue, loss.from_offset, loss.until_offset) == (A0, *lost)


@pytest.mark.parametrize(
    ("now", "starts", "lost"),
    [
        pytest.param(topics(q0=Bounds(8, 9)), {A0: 8}, [(A0, 5, 8)], id="aged: from the earliest"),
        pytest.param(topics(q0=Bounds(0, 4)), {A0: 4}, [(A0, 5, 5)], id="cut: from the end, for no row comes twice"),
        pytest.param(topics(q1=Bounds(0, 9)), {}, [(A0, 5, 7)], id="gone: it keeps its place"),
        pytest.param({}, {}, [(A0, 5, 7)], id="no topic: it keeps its place"),
        pytest.param(topics("second", q0=Bounds(2, 9)), {A0: 2}, [(A0, 5, 7)], id="created again: from its begin"),
        pytest.param(topics("second", q1=Bounds(2, 9)), {A0: 0}, [(A0, 5, 7)], id="created again with other queues"),
        pytest.param(topics(q0=Bounds(5, 6)), {}, [], id="nothing lost"),
    ],
)
def test_where_a_query_goes_on_that_may(
    now: dict[str, TopicBounds], starts: dict[MessageQueue, int], lost: list[tuple[MessageQueue, int, int]]
) -> None:
    told: list[Loss] = []
    assert resume(QueueOffsets({A0: 5}, creation_ids={"orders": "first"}), now, {A0: 7}, told.append) == starts
    assert [loss[:3] for loss in told] == lost
