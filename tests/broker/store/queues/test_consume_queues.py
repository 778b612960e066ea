"""All consume queues together."""

import random
from collections.abc import Sequence

import pytest

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Bounds, Message, MessageQueue, StoredMessage
from rmqpull_broker.core.state.facts import ColumnsStored, QueuePart, QueuesTrimmed, RowsStored
from rmqpull_broker.core.state.ports import NOT_LOGGED, RetentionLimits
from rmqpull_broker.store.queues import consume_queues
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues

FIRST, SECOND = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2))


def row(offset: int, body: bytes) -> StoredMessage:
    return StoredMessage(Message(body, "ID"), offset, 5, "host")


@pytest.fixture
def queues() -> ConsumeQueues:
    """Two queues, filled by single rows and then by one batch."""
    filled = ConsumeQueues()
    filled.apply(RowsStored(FIRST, (row(0, b"a"), row(1, b"b"))), NOT_LOGGED)
    batch = columns.from_rows([row(2, b"c"), row(0, b"d"), row(1, b"e")])
    filled.apply(ColumnsStored((QueuePart(FIRST, 2, 1), QueuePart(SECOND, 0, 2)), batch), NOT_LOGGED)
    return filled


def test_each_queue_gets_its_part_of_a_batch(queues: ConsumeQueues) -> None:
    assert columns.to_rows(queues.read(FIRST, 0, 3)) == [row(0, b"a"), row(1, b"b"), row(2, b"c")]
    assert columns.to_rows(queues.read(SECOND, 0, 2)) == [row(0, b"d"), row(1, b"e")]


def test_queues_that_differ_in_any_part_of_their_name_are_others(queues: ConsumeQueues) -> None:
    assert [queues.bounds(queue) for queue in (FIRST, SECOND)] == [Bounds(0, 3), Bounds(0, 2)]
    for other in (MessageQueue("orders", "broker-b", 0), MessageQueue("invoices", "broker-a", 0)):
        assert queues.bounds(other) == Bounds(0, 0)


def expire(queues: ConsumeQueues, limits: RetentionLimits, now_ms: int) -> Sequence[tuple[MessageQueue, int]]:
    cut = queues.expire(limits, now_ms)
    return cut.min_offsets if cut is not None else []


def test_in_memory_chunks_go_when_all_of_them_is_too_old() -> None:
    queues = ConsumeQueues()
    for number, queue in enumerate((FIRST, SECOND, FIRST)):
        rows = [StoredMessage(Message(b"x", "ID"), number // 2 * 5_000 + n, number, "host") for n in range(5_000)]
        part = QueuePart(queue, rows[0].queue_offset, 5_000)
        queues.apply(ColumnsStored((part,), columns.from_rows(rows)), NOT_LOGGED)
    assert queues.expire(RetentionLimits(10), now_ms=10) is None
    assert expire(queues, RetentionLimits(10), now_ms=11) == [(FIRST, 5_000)]
    assert expire(queues, RetentionLimits(10), now_ms=99) == [(FIRST, 5_000)]  # the newest chunk of each queue stays
    most = queues.unsaved_bytes * 2 // 3
    assert expire(queues, RetentionLimits(10, most), now_ms=0) == [(FIRST, 5_000)]
    queues.apply(QueuesTrimmed(((FIRST, 5_000),)), NOT_LOGGED)
    assert queues.unsaved_bytes <= most
    assert queues.expire(RetentionLimits(10, most), now_ms=0) is None


def test_in_memory_the_newest_chunks_go_by_their_size_and_not_by_their_age(queues: ConsumeQueues) -> None:
    assert queues.expire(RetentionLimits(0), now_ms=5) is None
    assert expire(queues, RetentionLimits(0), now_ms=1_000) == [(FIRST, 2)]
    assert expire(queues, RetentionLimits(1_000, 0), now_ms=5) == [(FIRST, 3), (SECOND, 2)]
    for queue, end in ((FIRST, 3), (SECOND, 2)):
        queues.apply(QueuesTrimmed(((queue, end),)), NOT_LOGGED)
    assert queues.unsaved_bytes == 0
    assert queues.bounds(FIRST) == Bounds(3, 3)


def delayed_rows(count: int) -> list[StoredMessage]:
    """Messages whose ids and bodies of 100 bytes cannot be compressed."""
    dice = random.Random(7)
    properties = {"REAL_TOPIC": "later", "REAL_QID": "0"}
    return [
        StoredMessage(
            Message(
                dice.randbytes(100),
                dice.randbytes(16).hex(),
                system_properties={**properties, "TIMER_OUT_MS": str(dice.randrange(1 << 37))},
                born_host="10.0.0.1:54321",
            ),
            offset,
            5,
            "127.0.0.1:8081",
        )
        for offset in range(count)
    ]


def test_in_memory_delayed_messages_take_a_hundred_bytes_beside_their_bodies() -> None:
    queues, timer, count = ConsumeQueues(), MessageQueue("rmq_sys_wheel_timer", "broker-a", 0), 16_384
    rows = delayed_rows(count)
    for begin in range(0, count, 32):
        queues.apply(RowsStored(timer, tuple(rows[begin : begin + 32])), NOT_LOGGED)
    assert queues.unsaved_bytes < count * 170
    assert columns.to_rows(queues.read(timer, 8_000, 8_400)) == rows[8_000:8_400]
    assert columns.to_rows(queues.read(timer, 0, count)) == rows
    queues.apply(QueuesTrimmed(((timer, 8_192),)), NOT_LOGGED)
    assert 0 < queues.unsaved_bytes < count * 90
    queues.apply(QueuesTrimmed(((timer, count),)), NOT_LOGGED)
    assert queues.unsaved_bytes == 0


def test_what_others_read_is_not_compressed() -> None:
    queues, count = ConsumeQueues(), 8_192
    queues.apply(RowsStored(FIRST, tuple(delayed_rows(count))), NOT_LOGGED)
    assert queues.unsaved_bytes > count * 250


@pytest.mark.parametrize(("limit", "most"), [("TAILS_AT_ONCE", 2), ("TAIL_ROWS_AT_ONCE", 3)])
def test_tails_become_chunks_some_at_a_time(limit: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_queues, limit, most)
    queues = ConsumeQueues()
    many = [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(3)]
    for queue in many:
        queues.apply(RowsStored(queue, (row(0, b"a"), row(1, b"b"))), NOT_LOGGED)
    before = queues.unsaved_bytes
    lengths = []
    for _ in range(3):
        lengths.append([len(queues.read_tail(queue, 0)) for queue in many])
        queues.seal_tails()
    assert lengths == [[2, 2, 2], [0, 0, 2], [0, 0, 0]]
    assert queues.unsaved_bytes < before
    assert all(columns.to_rows(queues.read(queue, 0, 2)) == [row(0, b"a"), row(1, b"b")] for queue in many)
