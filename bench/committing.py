"""Load of stages and commits on a broker: each function runs one workload and returns its figures."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from bench.broker_load import GROUP, Call, batch_of, calls, checked, queue, shares
from rmqpull_proto import columns
from rmqpull_proto.arrow_streams import read_stream
from rmqpull_proto.columns import PULLABLE_SCHEMA
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rmqpull.v1 import stages_pb2 as rpc
from rmqpull_proto.rpc import COLUMNS, STAGES

STAGES_OF_COMMIT = 8
"""As many as the partitions of a batch write."""
WRITERS = 8
"""Commits of many small ones that are in flight at a time."""
READERS = 4


MakeBatch = Callable[[int], bytes]
"""Returns so many rows as an Arrow IPC stream."""


class Committed(NamedTuple):
    """How a large commit went: seconds of its staging and of the commit, all looks meanwhile, and those at a part."""

    staging_s: float
    commit_s: float
    looks: int
    parts_seen: int


def _name_parts(topics: Sequence[str], count: int) -> list[v1.TopicPart]:
    sizes = [count // len(topics)] * (len(topics) - 1)
    return [
        v1.TopicPart(topic=topic, row_count=size)
        for topic, size in zip(topics, [*sizes, count - sum(sizes)], strict=True)
    ]


def whole_batch_of(rows: int) -> bytes:
    """Returns rows that lack nothing which the broker would add to each: they have ids, times, and a property too."""
    bodies = read_stream(batch_of(rows), PULLABLE_SCHEMA)[0].column("body")
    batch = pa.record_batch(
        {
            "body": bodies,
            "msgId": pa.array([uuid.uuid4().hex.upper() for _ in range(rows)]),
            "bornTimestamp": pa.array([time.time_ns() // 1000] * rows, columns.TIMESTAMP),
            "properties": pa.array([[("source", "bench")]] * rows, columns.PROPERTIES),
        }
    )
    return columns.write_stream(batch.schema, [batch])


async def publish_whole(endpoints: str, topic: str, rows: int, rows_per_call: int) -> None:
    """Publishes such rows, two calls at a time."""
    counts = shares(rows, rows_per_call)
    batches = {count: whole_batch_of(count) for count in set(counts)}
    waiting = iter(counts)
    async with calls(endpoints) as call:

        async def publish() -> None:
            for count in waiting:
                request = v1.PublishColumnsRequest(topic=topic, arrow_ipc=batches[count])
                checked(await call(COLUMNS.methods["PublishColumns"], request))

        await asyncio.gather(publish(), publish())


async def _stage(
    call: Call, transaction: str, topics: Sequence[str], counts: Sequence[int], make_batch: MakeBatch
) -> dict[str, int]:
    """Stages calls of so many rows, two at a time. Returns the stages with the numbers of their calls."""
    batches = {count: make_batch(count) for count in set(counts)}
    stage_ids = [f"{transaction}-{place % STAGES_OF_COMMIT}" for place in range(len(counts))]
    waiting = iter(enumerate(counts))

    async def hand_over() -> None:
        for place, count in waiting:
            request = rpc.StageColumnsRequest(
                transaction=rpc.Transaction(id=transaction),
                stage_id=stage_ids[place],
                sequence=place // STAGES_OF_COMMIT,
                parts=_name_parts(topics, count),
                arrow_ipc=batches[count],
            )
            checked(await call(STAGES.methods["StageColumns"], request))

    await asyncio.gather(hand_over(), hand_over())
    return {stage_id: stage_ids.count(stage_id) for stage_id in set(stage_ids)}


def _make_commit(transaction: str, call_counts: Mapping[str, int]) -> rpc.CommitStagesRequest:
    stages = [rpc.CommittedStage(stage_id=stage_id, call_count=count) for stage_id, count in call_counts.items()]
    return rpc.CommitStagesRequest(transaction=rpc.Transaction(id=transaction), stages=stages)


async def _count_readable(call: Call, topics: Sequence[str]) -> int:
    request = v1.QueryBoundsRequest(topics=[v1.TopicBoundsRequest(topic=topic) for topic in topics])
    response = checked(await call(COLUMNS.methods["QueryBounds"], request))
    return sum(queue.max_offset for topic in response.topics for queue in topic.queues)


async def commit_rows(
    endpoints: str, topics: Sequence[str], rows: int, rows_per_call: int, make_batch: MakeBatch = batch_of
) -> Committed:
    """Stages rows and commits them, and looks at the bounds of all queues as fast as it can meanwhile."""
    transaction = f"bench {time.time_ns()}"
    async with calls(endpoints, channels=2) as call:
        before = await _count_readable(call, topics)
        begun_s = time.perf_counter()
        call_counts = await _stage(call, transaction, topics, shares(rows, rows_per_call), make_batch)
        staged_s = time.perf_counter()
        committing = asyncio.ensure_future(
            call(STAGES.methods["CommitStages"], _make_commit(transaction, call_counts), connection=1)
        )
        seen = list[int]()
        while not committing.done():
            seen.append(await _count_readable(call, topics) - before)
        checked(await committing)
        ended_s = time.perf_counter()
        if await _count_readable(call, topics) - before != rows:
            raise SystemExit("a commit was acknowledged, and not all of its rows can be read")
    return Committed(staged_s - begun_s, ended_s - staged_s, len(seen), sum(0 < count < rows for count in seen))


def _place(rows: int, queue_id: int) -> bytes:
    """Returns rows that name their queue."""
    bodies = read_stream(batch_of(rows), PULLABLE_SCHEMA)[0].column("body")
    batch = pa.record_batch(
        {"body": bodies, "brokerName": pa.repeat("broker-a", rows), "queueId": pa.array([queue_id] * rows, pa.int32())}
    )
    return columns.write_stream(batch.schema, [batch])


async def commit_often(
    endpoints: str, topic: str, commits: int, rows: int, queues: int, *, in_large_parts: bool
) -> None:
    """Commits many times a few rows: spread over all queues, or, ``in_large_parts``, each time to the next queue."""
    batches = [_place(rows, queue_id) for queue_id in range(queues)] if in_large_parts else [batch_of(rows)]
    numbers = iter(range(commits))
    async with calls(endpoints, channels=WRITERS) as call:

        async def write(connection: int) -> None:
            for number in numbers:
                transaction = f"{topic} {number}"
                staged = rpc.StageColumnsRequest(
                    transaction=rpc.Transaction(id=transaction),
                    stage_id=transaction,
                    topic=topic,
                    arrow_ipc=batches[number % len(batches)],
                )
                checked(await call(STAGES.methods["StageColumns"], staged, connection))
                commit = _make_commit(transaction, {transaction: 1})
                checked(await call(STAGES.methods["CommitStages"], commit, connection))

        await asyncio.gather(*map(write, range(WRITERS)))


async def read_rate(endpoints: str, topic: str, queues: int, wanted: int) -> float:
    """Measures a read of all queues of a topic: rows per second, several queues at a time."""
    waiting, read = iter(range(queues)), 0
    async with calls(endpoints, channels=READERS) as call:

        async def follow(connection: int) -> None:
            nonlocal read
            for queue_id in waiting:
                offset = 0
                while True:
                    pull = v1.QueuePull(queue=queue(topic, queue_id), offset=offset)
                    request = v1.PullColumnsRequest(group=GROUP, queues=[pull], columns=["body"])
                    response = checked(await call(COLUMNS.methods["PullColumns"], request, connection))
                    count = sum(batch.num_rows for batch in read_stream(response.arrow_ipc, PULLABLE_SCHEMA))
                    if not count:
                        break
                    offset += count
                read += offset

        begun_s = time.perf_counter()
        await asyncio.gather(*map(follow, range(READERS)))
        took_s = time.perf_counter() - begun_s
    if read != wanted:
        raise SystemExit(f"topic {topic} has {read} rows instead of {wanted}")
    return read / took_s
