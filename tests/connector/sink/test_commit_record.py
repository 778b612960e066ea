"""The broker recognizes a micro-batch by its record."""

from __future__ import annotations

from pyspark_rmqpull.sink.commit_record import WrittenRows, make_record, name_destination
from rmqpull_client.transports.port import CommitRecord

ORDERS = WrittenRows(frozenset({"orders"}), 2, (5, (1 << 64) - 1))
PAYMENTS = WrittenRows(frozenset({"payments", "orders"}), 3, (7, 2))
NONE = WrittenRows(frozenset(), 0, (0, 0))


def test_the_rows_of_all_tasks_make_one_record() -> None:
    record = make_record([ORDERS, PAYMENTS], b"plan")
    assert record == CommitRecord(b"plan", "orders, payments", 5, b"\x0c" + bytes(7) + b"\x01" + bytes(7))
    assert make_record([PAYMENTS, NONE, ORDERS], b"plan") == record
    assert make_record([], b"") == make_record([NONE], b"") == CommitRecord(b"", "", 0, bytes(16))


def test_many_topics_are_shortened_to_a_digest() -> None:
    def topics(count: int, last: str = "z") -> frozenset[str]:
        return frozenset([*(f"topic-{number}" for number in range(count - 1)), last])

    assert name_destination(topics(5)) == "topic-0, topic-1, topic-2, topic-3, z"
    many = name_destination(topics(1_000))
    assert many.startswith("1000 topics, topic-0 to z (")
    assert name_destination(topics(1_000) - {"topic-5"} | {"topic-x"}) != many
    assert len(name_destination(frozenset(letter * 5_000 for letter in "abcdefgh"))) <= 600  # longer than any topic
