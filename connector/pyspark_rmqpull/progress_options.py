"""Options of a query's progress: the consumer group that follows it, and what becomes of it after a loss."""

from __future__ import annotations

from pyspark_rmqpull.option import Option, boolean, resource_name

PROGRESS_OPTIONS = (
    Option(
        "consumerGroup",
        None,
        "name",
        "Group whose offsets follow the query, micro-batch by micro-batch; without one nothing is committed.",
        resource_name(120),
    ),
    Option(
        "failOnDataLoss",
        "true",
        "true, false",
        "Whether a query ends whose messages are gone. With `false` it goes on from the earliest that is left, never "
        "gives a row twice, and reports what is missing.",
        boolean,
    ),
)
