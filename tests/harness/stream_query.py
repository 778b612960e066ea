"""A streaming query without Spark, which plans micro-batch after micro-batch as Spark would."""

from __future__ import annotations

from typing import Any, Protocol

from pyspark_rmqpull.clock import Clock
from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.reading.partition_reader import QueueRangesPartition
from pyspark_rmqpull.reading.stream_reader import RmqpullStreamReader
from pyspark_rmqpull.schema import ROW_SCHEMA
from pyspark_rmqpull.spark_releases.release import ReadAllAvailable, ReadLimit

Json = dict[str, Any]
EVERYTHING = ReadAllAvailable()
"""The limit of Spark's Once trigger."""
"""The limit that Spark passes when an option limits batches: the options say how much, and the number is ignored."""


def make_reader(clock: Clock | None = None, /, **options: str) -> RmqpullStreamReader:
    """A reader of topic orders from its earliest messages, unless the options say otherwise."""
    given = {"startingOffsets": "earliest"} | ({} if "nameServers" in options else {"endpoints": "127.0.0.1:8081"})
    given |= {} if {"assign", "topicPattern"} & options.keys() else {"topic": "orders"}
    return RmqpullStreamReader(SourceOptions.from_options(given | options), ROW_SCHEMA, clock)


def offset(offsets: dict[int, int], starts: dict[int, int] | None = None, creation_id: str = "first") -> Json:
    """An offset of topic orders by queue ids, as Spark reads it from the checkpoint."""
    form: Json = {"creationIds": {"orders": creation_id}, "offsets": named(offsets)}
    if starts:
        form["starts"] = named(starts)
    return form | {"version": 1}


def named(offsets: dict[int, int]) -> Json:
    """Offsets of topic orders by queue ids, in the form of the checkpoint."""
    return {"orders": {"a": {str(queue_id): offset for queue_id, offset in offsets.items()}}}


def ranges_of(tasks: Any) -> list[list[tuple[int, int, int]]]:
    """The ranges of each task: queue id, first offset and end."""
    assert all(isinstance(task, QueueRangesPartition) for task in tasks)
    return [[(entry.queue.queue_id, *entry[1:]) for entry in task.ranges] for task in tasks]


CAUGHT_UP = offset({0: 14, 1: 0})
"""The end of a batch that has read all that the fake broker has at first."""


class StreamQuery:
    """One run of a query. It starts without a checkpoint, or from ``end``, where an earlier run has stopped."""

    def __init__(self, clock: Clock, end: Json | None = None, /, **options: str) -> None:
        self.reader = make_reader(clock, **options)
        self.start: Json = {}
        self.end: Json = self.reader.initialOffset() if end is None else end

    def plan(self, limit: ReadLimit | None = None) -> Json:
        """Plans the next micro-batch behind the last one, which counts as finished, and returns its end.

        An end that equals the start means that Spark runs no batch.
        """
        end = self.reader.latestOffset(self.end, self.reader.getDefaultReadLimit() if limit is None else limit)
        self.start, self.end = self.end, end
        return end

    @property
    def offsets(self) -> Json:
        """The offsets at which the newest batch ends."""
        found: Json = self.end["offsets"]
        return found

    @property
    def starts(self) -> Json:
        """The starts that the newest batch records."""
        found: Json = self.end["starts"]
        return found

    @property
    def is_idle(self) -> bool:
        """Whether the newest planning found nothing to run."""
        return self.end is self.start

    @property
    def tasks(self) -> list[list[tuple[int, int, int]]]:
        """The ranges of each task of the newest batch: queue id, first offset and end."""
        return ranges_of(self.reader.partitions(self.start, self.end))


class StartQuery(Protocol):
    """The fixture ``start_query``: starts a query on the fake broker; ``end`` is where an earlier run has stopped."""

    def __call__(self, end: Json | None = None, /, **options: str) -> StreamQuery: ...
