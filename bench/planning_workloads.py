"""The workloads that show what witnesses cost.

Two stream readers take turns, without Spark. One of them looks at no message.
"""

from __future__ import annotations

import gc
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from bench.comparison import Mismeasured
from bench.planning_figures import Times
from bench.sizes import size
from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.planning.offsets import QueueOffsets
from pyspark_rmqpull.reading.backlog import TopicWatch
from pyspark_rmqpull.reading.history import History
from pyspark_rmqpull.reading.partition_reader import QueueRangesPartition
from pyspark_rmqpull.reading.stream_reader import RmqpullStreamReader
from pyspark_rmqpull.schema import ROW_SCHEMA
from rmqpull_client.connection import Connection
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.port import BrokerClient
from rmqpull_client.witness import PULLS_MAX, Witness

BROKER = "broker-a"
GROUP = "bench"
BODY_BYTES = 100
WARM_UPS = 5
FIRST_WARM_UPS = 1
IN_QUEUES_WITHIN_S = 60.0
ARRIVES_WITHIN_S = 60.0
PAUSE_S = (0.02, 0.06)
"""The pause before a send, in which the reader begins to wait.

It is random, so that it matches no rhythm of a server.
"""
_LOOK_S = 0.002
BOTH = (True, False)
"""With witnesses, and without."""


@dataclass(frozen=True)
class PlanningSizes:
    """All sizes. The defaults are those of a whole run."""

    queues: int = size(1_000, "Queues of the large topic; each gets a message per round.")
    rounds: int = size(40, "Micro-batches that each reader plans on the large topic.")
    single_rounds: int = size(100, "Micro-batches that each reader plans on a topic with one queue.")
    messages: int = size(100, "Messages that each reader waits for, one at a time.")
    starts: int = size(6, "Fresh readers of each kind, for the first micro-batch of a run.")


class LookingAtNothing(History):
    """A history that asks for no message. So it has no witnesses."""

    def _look_at(self, offsets: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, Witness | None]:
        return {}


class ReaderWithoutWitnesses(RmqpullStreamReader):
    """The stream reader with a history that looks at nothing. All else is the same."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options, ROW_SCHEMA)
        group, timeout_ms = options.pull_group, options.request_timeout_ms
        self._history = LookingAtNothing(self._client, group, timeout_ms, self._clock)
        self._watch = TopicWatch(options, self._client, self._clock, self._history)


class Query:
    """One run of a query: it plans as Spark does, which passes offsets as text in both directions.

    ``end`` is where an earlier run has stopped.
    """

    def __init__(self, options: Mapping[str, str], has_witnesses: bool, end: str | None = None) -> None:
        parsed = SourceOptions.from_options(dict(options))
        self.has_witnesses = has_witnesses
        self.reader = RmqpullStreamReader(parsed, ROW_SCHEMA) if has_witnesses else ReaderWithoutWitnesses(parsed)
        self._limit = self.reader.getDefaultReadLimit()
        self.end = json.dumps(self.reader.initialOffset()) if end is None else end
        self._start = self.end

    def plan(self) -> Sequence[InputPartition]:
        """Plans the next micro-batch behind the last one. Returns its tasks: none if there is no new message."""
        self._start = self.end
        self.end = json.dumps(self.reader.latestOffset(json.loads(self._start), self._limit))
        if self.end == self._start:
            return ()
        return self.reader.partitions(json.loads(self._start), json.loads(self.end))

    def time_plan(self, messages: int) -> float:
        """Plans a micro-batch that must have so many messages. Returns the milliseconds. Raises Mismeasured."""
        gc.collect()  # or a collection that falls due would always hit the same reader
        begun = time.perf_counter()
        tasks = self.plan()
        took_ms = (time.perf_counter() - begun) * 1000
        planned = [one for task in tasks if isinstance(task, QueueRangesPartition) for one in task.ranges]
        found = sum(one.until_offset - one.from_offset for one in planned)
        if found != messages:
            raise Mismeasured(f"a micro-batch has {found} messages instead of {messages}")
        self.reader.commit(json.loads(self.end))
        return took_ms

    def count_new_witnesses(self) -> int:
        """Returns how many witnesses the newest micro-batch has recorded. Raises Mismeasured if a reader without
        witnesses has some, or one with them none.
        """
        before, after = (QueueOffsets.from_json(json.loads(text)).witnesses for text in (self._start, self.end))
        if bool(after) != self.has_witnesses:
            raise Mismeasured(f"a micro-batch has {len(after)} witnesses")
        return sum(before.get(queue) != witness for queue, witness in after.items())

    def read_next(self) -> tuple[float, list[bytes]]:
        """Plans until there are messages, and reads them. Returns when they are there, and their bodies."""
        deadline = time.monotonic() + ARRIVES_WITHIN_S
        while not (tasks := self.plan()):
            if time.monotonic() > deadline:
                raise Mismeasured(f"no message arrived within {ARRIVES_WITHIN_S:.0f} s")
        batches = [batch for task in tasks for batch in self.reader.read(task)]
        arrived = time.perf_counter()
        return arrived, [body for batch in batches for body in batch.column("body").to_pylist()]


class Feed:
    """A topic whose queues all get one message at a time. ``server`` is the option that names the server."""

    def __init__(self, server: Mapping[str, str], topic: str, queues: int) -> None:
        self.options = {**server, "topic": topic, "startingOffsets": "earliest"}
        self.queues = queues
        self._server = server
        self._topic = topic
        self._sent = 0

    @cached_property
    def _client(self) -> BrokerClient:
        endpoints, name_servers = (self._server.get(name, "") for name in ("endpoints", "nameServers"))
        return connect(Connection(endpoints, name_servers=name_servers))

    def advance(self) -> None:
        """Sends a message to each queue, and returns when all are in their queues. Raises Mismeasured."""
        self.send()
        deadline = time.monotonic() + IN_QUEUES_WITHIN_S
        while (found := self._count()) < self._sent and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        if found != self._sent:
            raise Mismeasured(f"topic {self._topic} has {found} messages instead of {self._sent}")

    def send(self) -> bytes:
        """Sends a message to each queue, and returns their body when the server has acknowledged all."""
        self._sent += self.queues
        body = b"%0*d" % (BODY_BYTES, self._sent)
        numbers = pa.array(range(self.queues), pa.int32())
        rows = {"body": [body] * self.queues, "brokerName": [BROKER] * self.queues, "queueId": numbers}
        self._client.publish(self._topic, pa.record_batch(rows))
        return body

    def make_checkpoint(self, has_witnesses: bool) -> str:
        """Returns the offsets of a query that has read everything, with a witness of each queue or without any."""
        query = Query(self.options, False)
        query.plan()
        read = QueueOffsets.from_json(json.loads(query.end))
        if has_witnesses:
            queues, looked = list(read.offsets), dict[MessageQueue, Witness | None]()
            for first in range(0, len(queues), PULLS_MAX):
                asked = {queue: read.offsets[queue] - 1 for queue in queues[first : first + PULLS_MAX]}
                looked |= self._client.look_at(GROUP, asked)
            read = replace(read, witnesses={queue: found for queue, found in looked.items() if found is not None})
        return json.dumps(read.to_json())

    def _count(self) -> int:
        bounds = self._client.query_bounds([self._topic])[self._topic].queues
        return sum(high for _, high in bounds.values())


def take_turns(rounds: int, warm_ups: int) -> Iterator[tuple[bool, tuple[bool, bool]]]:
    """Yields for each round whether it counts, and the order of the readers: every second round is reversed."""
    for number in range(warm_ups + rounds):
        yield number >= warm_ups, (BOTH[1], BOTH[0]) if number % 2 else BOTH


def plan_rounds(feed: Feed, rounds: int) -> Times:
    """Times the planning of micro-batches in which each queue has one new message. Both readers plan each of them.

    They continue from a checkpoint with a witness of each queue, as a query has after a while.
    """
    feed.advance()
    ends = {kind: feed.make_checkpoint(kind) for kind in BOTH}
    times, queries = Times(), {kind: Query(feed.options, kind, ends[kind]) for kind in BOTH}
    for counts, order in take_turns(rounds, WARM_UPS):
        feed.advance()
        for kind in order:
            took_ms = queries[kind].time_plan(feed.queues)
            new = queries[kind].count_new_witnesses()
            if counts:
                times.add(kind, took_ms)
                if kind:
                    times.add_witnesses(new)
    return times


def plan_first(feed: Feed, starts: int) -> tuple[Times, Times]:
    """Times the first micro-batches of fresh readers: of new queries, and of those that continue from a checkpoint.

    All run in this process, so the code is loaded and the connection is open.
    """
    new, continued, sent = Times(), Times(), 0
    for counts, order in take_turns(starts, FIRST_WARM_UPS):
        feed.advance()
        sent += feed.queues
        ends = {kind: _time_first(Query(feed.options, kind), new if counts else Times(), sent) for kind in order}
        feed.advance()
        sent += feed.queues
        for kind in order:
            again = Query(feed.options, kind, ends[kind])
            _time_first(again, continued if counts else Times(), feed.queues)
    return new, continued


def _time_first(query: Query, times: Times, messages: int) -> str:
    times.add(query.has_witnesses, query.time_plan(messages))
    new = query.count_new_witnesses()
    if query.has_witnesses:
        times.add_witnesses(new)
    return query.end


def wait_for_rows(feed: Feed, messages: int) -> Times:
    """Times single messages, from the acknowledgement of the send until a waiting reader has the row."""
    times, pauses = Times(), random.Random(0)
    feed.advance()
    queries = {kind: Query(feed.options, kind) for kind in BOTH}
    for query in queries.values():
        query.read_next()
    with ThreadPoolExecutor(1) as reading:
        for counts, order in take_turns(messages, WARM_UPS):
            for kind in order:
                took_ms = _time_row(feed, queries[kind], reading, pauses)
                if counts:
                    times.add(kind, took_ms)
                    if kind:
                        times.add_witnesses(queries[kind].count_new_witnesses())
                queries[not kind].read_next()  # it takes the same message afterwards, and waits for the next one too
    return times


def _time_row(feed: Feed, query: Query, reading: ThreadPoolExecutor, pauses: random.Random) -> float:
    gc.collect()
    waiting = reading.submit(query.read_next)
    time.sleep(pauses.uniform(*PAUSE_S))
    body = feed.send()
    acknowledged = time.perf_counter()
    arrived, bodies = waiting.result(ARRIVES_WITHIN_S)
    if bodies != [body]:
        raise Mismeasured(f"{len(bodies)} messages arrived instead of the one that was sent")
    return (arrived - acknowledged) * 1000
