"""The words by which a micro-batch is known again."""

from __future__ import annotations

from pyspark_rmqpull.sink.commit_record import WrittenRows, destination_of, record_of
from rmqpull_client.transports.grpc.producer import CommitRecord

ORDERS = WrittenRows(frozenset({"orders"}), 2, (5, (1 << 64) - 1))
PAYMENTS = WrittenRows(frozenset({"payments", "orders"}), 3, (7, 2))
NONE = WrittenRows(frozenset(), 0, (0, 0))


def test_the_rows_of_all_tasks_are_one_record() -> None:
    record = record_of([ORDERS, PAYMENTS], b"plan")
    assert record == CommitRecord(b"plan", "orders, payments", 5, b"\x0c" + bytes(7) + b"\x01" + bytes(7))
    assert record_of([PAYMENTS, NONE, ORDERS], b"plan") == record
    assert record_of([], b"") == record_of([NONE], b"") == CommitRecord(b"", "", 0, bytes(16))


def test_many_topics_are_named_by_a_digest() -> None:
    def topics(count: int, last: str = "z") -> frozenset[str]:
        return frozenset([*(f"topic-{number}" for number in range(count - 1)), last])

    assert destination_of(topics(5)) == "topic-0, topic-1, topic-2, topic-3, z"
    many = destination_of(topics(1_000))
    assert many.startswith("1000 topics, topic-0 to z (")
    assert destination_of(topics(1_000) - {"topic-5"} | {"topic-x"}) != many
    assert len(destination_of(frozenset(letter * 5_000 for letter in "abcdefgh"))) <= 600  # no topics, but rows say so
