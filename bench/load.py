"""Load on a server of the protocol: each function does one kind of work and gives what it measured."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pyarrow as pa

from rmqpull_proto import columns
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rpc import COLUMNS, MESSAGING, Method

IN_FLIGHT = 128
GROUP = "bench"
_METADATA = (("x-mq-client-id", "bench"),)
_LIMITS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))

Call = Callable[[Method, Any], Awaitable[Any]]


@asynccontextmanager
async def calls(endpoints: str, channels: int = 1) -> AsyncIterator[Call]:
    """A function that calls methods, each call over the next of so many connections."""
    opened = [
        grpc.aio.insecure_channel(endpoints, options=(*_LIMITS, ("bench.connection", number)))
        for number in range(channels)
    ]
    turn = 0

    async def call(method: Method, request: Any) -> Any:
        nonlocal turn
        turn += 1
        stub = opened[turn % channels].unary_unary(
            method.path,
            request_serializer=lambda r: r.SerializeToString(),
            response_deserializer=method.response.FromString,
        )
        return await stub(request, metadata=_METADATA)

    try:
        yield call
    finally:
        for channel in opened:
            await channel.close(None)


def checked(response: Any) -> Any:
    """The response, unless it is a refusal: a figure of refused calls would mean nothing."""
    if response.status.code not in (0, v2.Code.OK):
        raise SystemExit(f"refused: {response.status.message}")
    return response


def message(topic: str, body: bytes, tag: str = "") -> v2.Message:
    """A message as a client sends it."""
    properties = v2.SystemProperties(message_id=uuid.uuid4().hex, message_type=v2.MessageType.NORMAL)
    if tag:
        properties.tag = tag
    return v2.Message(topic=v2.Resource(name=topic), body=body, system_properties=properties)


async def send_rate(endpoints: str, topic: str, messages: int, per_call: int) -> float:
    """Messages per second, IN_FLIGHT calls at a time of ``per_call`` messages each."""
    requests = [
        messaging.SendMessageRequest(messages=[message(topic, bytes(100)) for _ in range(per_call)])
        for _ in range(messages // per_call)
    ]
    async with calls(endpoints) as call:
        waiting = iter(requests)

        async def sender() -> None:
            for request in waiting:
                checked(await call(MESSAGING.methods["SendMessage"], request))

        begun = time.perf_counter()
        await asyncio.gather(*(sender() for _ in range(IN_FLIGHT)))
        return messages / (time.perf_counter() - begun)


def batch_of(rows: int, body_bytes: int = 100) -> bytes:
    """A batch of messages as PublishColumns takes it."""
    bodies = pa.array([f"{number:0{body_bytes}d}".encode() for number in range(rows)], pa.binary())
    return columns.write_stream(pa.schema([("body", pa.binary())]), [pa.record_batch({"body": bodies})])


async def publish_rate(endpoints: str, topic: str, rows: int, rows_per_call: int) -> float:
    """Rows per second in columns, two calls at a time."""
    request = v1.PublishColumnsRequest(topic=topic, arrow_ipc=batch_of(rows_per_call))
    async with calls(endpoints) as call:
        waiting = iter(range(rows // rows_per_call))

        async def publisher() -> None:
            for _ in waiting:
                checked(await call(COLUMNS.methods["PublishColumns"], request))

        begun = time.perf_counter()
        await asyncio.gather(publisher(), publisher())
        return rows / (time.perf_counter() - begun)


def queue(topic: str, queue_id: int) -> v1.Queue:
    """A queue of the broker's default name."""
    return v1.Queue(topic=topic, broker_name="broker-a", queue_id=queue_id)


async def pull_rate(endpoints: str, topic: str, from_offset: int, rows: int, names: Sequence[str]) -> float:
    """Rows per second of one queue in columns, one call after the other."""
    offset, until = from_offset, from_offset + rows
    async with calls(endpoints) as call:
        begun = time.perf_counter()
        while offset < until:
            pull = v1.QueuePull(queue=queue(topic, 0), offset=offset, until_offset=until)
            request = v1.PullColumnsRequest(group=GROUP, queues=[pull], columns=names)
            response = checked(await call(COLUMNS.methods["PullColumns"], request))
            offset += sum(batch.num_rows for batch in columns.read_stream(response.arrow_ipc))
        return rows / (time.perf_counter() - begun)


async def parked_wake_ups(
    endpoints: str, topic: str, parked: int, wake_ups: int, settled: Callable[[], None]
) -> list[float]:
    """Milliseconds from the start of a send to the answer of the one pull that it wakes, among ``parked`` pulls.

    Each pull waits for a tag of its own. ``settled`` is called when all of them wait, and may look at the server.
    """

    def pull(number: int, offset: int) -> v1.PullColumnsRequest:
        return v1.PullColumnsRequest(
            group=GROUP,
            queues=[v1.QueuePull(queue=queue(topic, 0), offset=offset)],
            filter_expression=v2.FilterExpression(type=v2.FilterType.TAG, expression=f"tag{number}"),
            columns=["queueOffset"],
            long_polling_timeout_ms=300_000,
        )

    async with calls(endpoints, channels=32) as call:
        method = COLUMNS.methods["PullColumns"]
        waiting = [asyncio.ensure_future(call(method, pull(number, 0))) for number in range(parked)]
        await _until_answered(call, topic)
        settled()
        took_ms = []
        for number in range(wake_ups):
            begun = time.perf_counter()
            sent = messaging.SendMessageRequest(messages=[message(topic, b"x", f"tag{number % parked}")])
            checked(await call(MESSAGING.methods["SendMessage"], sent))
            response = checked(await waiting[number % parked])
            took_ms.append((time.perf_counter() - begun) * 1000)
            again = pull(number % parked, response.queues[0].max_offset)
            waiting[number % parked] = asyncio.ensure_future(call(method, again))
            await _until_answered(call, topic)
        for future in waiting:
            future.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return took_ms


async def _until_answered(call: Call, topic: str) -> None:
    """Calls go their way in order: when one on each connection is answered, those before it have arrived."""
    bounds = v1.QueryBoundsRequest(topics=[v1.TopicBoundsRequest(topic=topic)])
    await asyncio.gather(*(call(COLUMNS.methods["QueryBounds"], bounds) for _ in range(32)))
