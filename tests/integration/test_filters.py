"""Filters: the broker evaluates them, offsets count filtered messages, and these are not lost."""

from __future__ import annotations

import re

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from rmqpull_broker.core.model import Message
from tests.harness.spark_queries import Queries, Topic


def send_numbered(topic: Topic, first: int, until: int) -> None:
    """Sends messages whose body and property ``number`` are their number. One in four has the tag "paid", others
    "sent".
    """
    for number in range(first, until):
        tag = "sent" if number % 4 else "paid"
        topic.send(Message(b"%03d" % number, "", tags=tag, properties={"number": str(number)}))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"filterExpression": "paid"}, range(0, 40, 4)),
        ({"filterExpression": "paid || nobody", "filterType": "TAG"}, range(0, 40, 4)),
        ({"filterExpression": "number BETWEEN 7 AND 9", "filterType": "SQL92"}, [7, 8, 9]),
        ({"filterExpression": "nobody"}, []),
        ({"filterExpression": "*"}, range(40)),
    ],
    ids=lambda value: value.get("filterExpression", "") if isinstance(value, dict) else "",
)
def test_only_matching_messages_are_read(
    queries: Queries, topic: Topic, options: dict[str, str], wanted: list[int]
) -> None:
    send_numbered(topic, 0, 40)
    assert queries.run(queries.stream(topic, **options)).bodies == [b"%03d" % number for number in wanted]


def test_a_column_that_the_filter_needs_is_not_shown(queries: Queries, topic: Topic) -> None:
    send_numbered(topic, 0, 5)
    rows = queries.run(queries.stream(topic, "body BINARY", filterExpression="paid")).rows
    assert sorted(tuple(map(bytes, row)) for row in rows) == [(b"000",), (b"004",)]


def test_the_limit_counts_filtered_messages_and_a_restart_continues(queries: Queries, topic: Topic) -> None:
    send_numbered(topic, 0, 12)
    options = {"filterExpression": "paid", "maxOffsetsPerTrigger": "6"}
    first = queries.run(queries.stream(topic, **options))
    assert (len(first.batches), first.bodies) == (2, [b"000", b"004", b"008"])
    send_numbered(topic, 12, 20)
    assert queries.run(queries.stream(topic, **options)).bodies == [b"012", b"016"]


def test_a_running_query_reads_messages_that_match_after_others_that_do_not(queries: Queries, topic: Topic) -> None:
    run = queries.start(queries.stream(topic, filterExpression="paid", consumerGroup="filtering"))
    for first in (0, 4, 8):
        send_numbered(topic, first, first + 4)
        run.process_all()
    run.query.stop()
    assert run.bodies == [b"000", b"004", b"008"]


@pytest.mark.parametrize(
    ("filter_type", "expression"),
    [("SQL92", "number >"), ("TAG", "||")],
)
def test_a_malformed_expression_ends_the_query_before_any_work(
    queries: Queries, topic: Topic, filter_type: str, expression: str
) -> None:
    send_numbered(topic, 0, 3)
    stream = queries.stream(
        topic, filterExpression=expression, filterType=filter_type, consumerGroup=f"bad-{filter_type}"
    )
    sentence = f"OptionError: The broker does not evaluate the filter expression '{expression}' of type {filter_type}"
    with pytest.raises(StreamingQueryException, match=re.escape(sentence)):
        queries.run(stream)


def test_a_batch_read_is_filtered_too(queries: Queries, topic: Topic) -> None:
    send_numbered(topic, 0, 8)
    rows = queries.batch(topic, filterExpression="paid").collect()
    assert sorted(bytes(row["body"]) for row in rows) == [b"000", b"004"]


def test_a_malformed_expression_is_refused_before_a_batch_is_read(queries: Queries, topic: Topic) -> None:
    send_numbered(topic, 0, 3)
    batch = queries.batch(topic, filterExpression="number >", filterType="SQL92")
    with pytest.raises(
        PySparkException, match="OptionError: The broker does not evaluate the filter expression 'number >'"
    ):
        batch.collect()
