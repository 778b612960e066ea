"""All consume queues together."""

import pytest

from rmqpull_broker.core import columns
from rmqpull_broker.core.facts import ColumnsStored, QueuePart, RowsStored
from rmqpull_broker.core.model import Bounds, Message, MessageQueue, StoredMessage
from rmqpull_broker.store.queues import ConsumeQueues

FIRST, SECOND = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2))


def row(offset: int, body: bytes) -> StoredMessage:
    return StoredMessage(Message(body, "ID"), offset, 5, "host")


@pytest.fixture
def queues() -> ConsumeQueues:
    """Two queues, filled by single rows and then by one batch."""
    filled = ConsumeQueues()
    filled.append(RowsStored(FIRST, (row(0, b"a"), row(1, b"b"))))
    batch = columns.from_rows([row(2, b"c"), row(0, b"d"), row(1, b"e")])
    filled.append(ColumnsStored((QueuePart(FIRST, 2, 1), QueuePart(SECOND, 0, 2)), batch))
    return filled


def test_each_queue_gets_its_part_of_a_batch(queues: ConsumeQueues) -> None:
    assert columns.to_rows(queues.read(FIRST, 0, 3)) == [row(0, b"a"), row(1, b"b"), row(2, b"c")]
    assert columns.to_rows(queues.read(SECOND, 0, 2)) == [row(0, b"d"), row(1, b"e")]


def test_queues_that_differ_in_any_part_of_their_name_are_others(queues: ConsumeQueues) -> None:
    assert [queues.bounds(queue) for queue in (FIRST, SECOND)] == [Bounds(0, 3), Bounds(0, 2)]
    for other in (MessageQueue("orders", "broker-b", 0), MessageQueue("invoices", "broker-a", 0)):
        assert queues.bounds(other) == Bounds(0, 0)
