"""Load on a server: each function runs one workload and returns its figure.

The client is Python too and shares the machine with the server, so a figure contains both.
"""

from __future__ import annotations

import asyncio
import os
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
from rmqpull_proto.arrow_streams import read_stream
from rmqpull_proto.columns import PULLABLE_SCHEMA
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rpc import COLUMNS, MESSAGING, Method

IN_FLIGHT = 128
GROUP = "bench"
BODY_BYTES = 100
METADATA = (("x-mq-client-id", "bench"),)
_LIMITS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))

Call = Callable[..., Awaitable[Any]]
"""Takes a method, a request, and the number of the connection if there are several."""


@asynccontextmanager
async def connections(endpoints: str, count: int = 1) -> AsyncIterator[list[grpc.aio.Channel]]:
    """Yields open connections, so that no figure includes the time to open one."""
    opened = [
        grpc.aio.insecure_channel(endpoints, options=(*_LIMITS, ("bench.connection", number)))
        for number in range(count)
    ]
    try:
        await asyncio.gather(*(channel.channel_ready() for channel in opened))
        yield opened
    finally:
        for channel in opened:
            await channel.close(None)


@asynccontextmanager
async def calls(endpoints: str, channels: int = 1) -> AsyncIterator[Call]:
    """Yields a function that calls methods over one of the connections."""
    async with connections(endpoints, channels) as opened:

        async def call(method: Method, request: Any, connection: int = 0) -> Any:
            stub = opened[connection % channels].unary_unary(
                method.path,
                request_serializer=lambda r: r.SerializeToString(),
                response_deserializer=method.response.FromString,
            )
            return await stub(request, metadata=METADATA)

        yield call


def checked(response: Any) -> Any:
    """Returns the response, or exits if it is a refusal: figures of refused calls mean nothing."""
    if response.status.code not in (0, v2.Code.OK):
        raise SystemExit(f"refused: {response.status.message}")
    return response


def message(topic: str, body: bytes, tag: str = "") -> v2.Message:
    """Returns a message as a client sends it."""
    properties = v2.SystemProperties(message_id=uuid.uuid4().hex, message_type=v2.MessageType.NORMAL)
    if tag:
        properties.tag = tag
    return v2.Message(topic=v2.Resource(name=topic), body=body, system_properties=properties)


def delayed_message(topic: str, number: int) -> v2.Message:
    """Returns a message that is delivered in 1 to 23 hours. Its body cannot be compressed."""
    delayed = message(topic, os.urandom(BODY_BYTES))
    delayed.system_properties.message_type = v2.MessageType.DELAY
    delivery_s = int(time.time()) + 3_600 + number * 7_919 % 80_000
    delayed.system_properties.delivery_timestamp.FromSeconds(delivery_s)
    return delayed


async def send_delayed(endpoints: str, topic: str, messages: int, batch: int) -> None:
    """Sends delayed messages, ``batch`` per call."""
    async with calls(endpoints) as call:
        for begin in range(0, messages, batch * IN_FLIGHT):
            numbers = range(begin, min(begin + batch * IN_FLIGHT, messages))
            requests = [
                messaging.SendMessageRequest(messages=[delayed_message(topic, n) for n in numbers[at : at + batch]])
                for at in range(0, len(numbers), batch)
            ]
            for response in await asyncio.gather(*(call(MESSAGING.methods["SendMessage"], r) for r in requests)):
                checked(response)


def shares(whole: int, share: int) -> list[int]:
    """Splits ``whole`` into parts of ``share``. The last part may be smaller."""
    return [min(share, whole - begin) for begin in range(0, whole, share)]


async def send_rate(endpoints: str, topic: str, messages: int, per_call: int) -> float:
    """Measures sends: messages per second, with IN_FLIGHT calls of ``per_call`` messages each."""
    requests = [
        messaging.SendMessageRequest(messages=[message(topic, bytes(BODY_BYTES)) for _ in range(count)])
        for count in shares(messages, per_call)
    ]
    async with calls(endpoints) as call:
        waiting = iter(requests)

        async def sender() -> None:
            for request in waiting:
                checked(await call(MESSAGING.methods["SendMessage"], request))

        begun = time.perf_counter()
        await asyncio.gather(*(sender() for _ in range(IN_FLIGHT)))
        return messages / (time.perf_counter() - begun)


async def standard_pull_rate(endpoints: str, topic: str, queues: int, batch_size: int) -> float:
    """Measures standard pulls: messages per second, with a reader for each queue."""
    method = MESSAGING.methods["PullMessage"]
    async with connections(endpoints) as (channel,):
        stub = channel.unary_stream(
            method.path,
            request_serializer=lambda r: r.SerializeToString(),
            response_deserializer=method.response.FromString,
        )

        async def read(queue_id: int) -> int:
            request = messaging.PullMessageRequest(
                group=v2.Resource(name=GROUP),
                message_queue=v2.MessageQueue(topic=v2.Resource(name=topic), id=queue_id),
                batch_size=batch_size,
                filter_expression=v2.FilterExpression(expression="*"),
            )
            while True:
                status, *found, next_offset = [answer async for answer in stub(request, metadata=METADATA)]
                if status.status.code == v2.Code.MESSAGE_NOT_FOUND:
                    return int(request.offset)
                checked(status)
                if not found:
                    raise SystemExit("a pull found no messages where there are some")
                request.offset = next_offset.next_offset

        begun = time.perf_counter()
        messages = sum(await asyncio.gather(*map(read, range(queues))))
        return messages / (time.perf_counter() - begun)


def batch_of(rows: int) -> bytes:
    """Returns a batch of messages as PublishColumns takes it."""
    bodies = pa.array([f"{number:0{BODY_BYTES}d}".encode() for number in range(rows)], pa.binary())
    return columns.write_stream(pa.schema([("body", pa.binary())]), [pa.record_batch({"body": bodies})])


async def publish_rate(endpoints: str, topic: str, rows: int, rows_per_call: int) -> float:
    """Measures publishing in columns: rows per second, with two calls in flight."""
    counts = shares(rows, rows_per_call)
    requests = {count: v1.PublishColumnsRequest(topic=topic, arrow_ipc=batch_of(count)) for count in set(counts)}
    async with calls(endpoints) as call:
        waiting = iter(counts)

        async def publisher() -> None:
            for count in waiting:
                checked(await call(COLUMNS.methods["PublishColumns"], requests[count]))

        begun = time.perf_counter()
        await asyncio.gather(publisher(), publisher())
        return rows / (time.perf_counter() - begun)


def queue(topic: str, queue_id: int) -> v1.Queue:
    """Returns a queue of the broker with the default name."""
    return v1.Queue(topic=topic, broker_name="broker-a", queue_id=queue_id)


async def pull_rate(endpoints: str, topic: str, from_offset: int, rows: int, names: Sequence[str]) -> float:
    """Measures columnar pulls of one queue: rows per second, one call after the other, each as large as possible."""
    offset, until = from_offset, from_offset + rows
    async with calls(endpoints) as call:
        begun = time.perf_counter()
        while offset < until:
            pull = v1.QueuePull(queue=queue(topic, 0), offset=offset, until_offset=until)
            request = v1.PullColumnsRequest(group=GROUP, queues=[pull], columns=names)
            response = checked(await call(COLUMNS.methods["PullColumns"], request))
            read = sum(batch.num_rows for batch in read_stream(response.arrow_ipc, PULLABLE_SCHEMA))
            if not read:
                raise SystemExit(f"a pull of {topic} at offset {offset} found no messages where there are some")
            offset += read
        return (offset - from_offset) / (time.perf_counter() - begun)
