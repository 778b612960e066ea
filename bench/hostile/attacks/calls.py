"""Calls over gRPC: large, broken, many, and waiting ones."""

from __future__ import annotations

import asyncio
import os
import queue
import random
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from itertools import count, cycle, islice
from typing import Any

import grpc
import pyarrow as pa

from bench.hostile.attack import ATTACKED, CLIENT_ID, QUEUES, Attack, Target
from rmqpull_proto import columns
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rmqpull.v1 import stages_pb2 as stages
from rmqpull_proto.rpc import COLUMNS, MESSAGING, STAGES

ANSWER_S_MAX = 5.0
_METADATA = (("x-mq-client-id", CLIENT_ID),)
_STREAMS = 9_000
_WAITING = 20_000
_CHANNELS = 4
_SEED = 7
_ENTRIES = 3_000_000

Calls = Iterable[tuple[str, bytes]]
"""The path of a method, and the bytes of a request."""


def open_channels(endpoints: str, channels: int = _CHANNELS) -> list[Any]:
    """Returns channels with a connection for each."""
    limits = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
    return [grpc.insecure_channel(endpoints, (*limits, ("bench.connection", number))) for number in range(channels)]


def call(
    target: Target, calls: Calls, *, window: int = 16, metadata: Iterable[tuple[str, str | bytes]] = _METADATA
) -> Iterator[None]:
    """Makes calls, ``window`` at a time on each connection, and waits for all responses."""
    channels, left = open_channels(target.grpc), iter(calls)
    yield
    while True:
        waiting = [
            channel.unary_unary(path).future(request, ANSWER_S_MAX, metadata)
            for channel in channels
            for path, request in islice(left, window)
        ]
        for one in waiting:
            one.exception()
        yield


def metadata(target: Target) -> Iterator[None]:
    """Sends metadata of a megabyte."""
    large = [("x-mq-client-id", CLIENT_ID), ("large", "x" * 1_000_000)]
    request = messaging.QueryRouteRequest(topic=v2.Resource(name=ATTACKED)).SerializeToString()
    return call(target, cycle([(MESSAGING.methods["QueryRoute"].path, request)]), window=4, metadata=large)


def _settings(number: int, topics: int = 1) -> bytes:
    settings = v2.Settings(client_type=v2.ClientType.PUSH_CONSUMER)
    settings.subscription.group.name = f"streaming-{number % 100}"
    for topic in range(topics):
        entry = settings.subscription.subscriptions.add()
        entry.topic.name = ATTACKED if topic == 0 else f"{ATTACKED}-{topic}"
        entry.expression.expression = f"tag{number}"
    return messaging.TelemetryCommand(settings=settings).SerializeToString()


def streams(target: Target) -> Iterator[None]:
    """Opens streams of telemetry, each of another client, and says nothing more."""
    loop = asyncio.new_event_loop()
    steps = _open_streams(target.grpc)
    while True:
        yield loop.run_until_complete(anext(steps))


async def _open_streams(endpoints: str) -> AsyncIterator[None]:
    channels: list[Any] = [
        grpc.aio.insecure_channel(endpoints, (("bench.connection", number),)) for number in range(_CHANNELS)
    ]
    path = MESSAGING.methods["Telemetry"].path
    opened: list[Any] = []
    yield
    for number in count():
        if len(opened) >= _STREAMS:
            for one in opened:
                one.cancel()
            opened.clear()
        client = (("x-mq-client-id", f"{CLIENT_ID}-{number}"),)
        stream = channels[number % _CHANNELS].stream_stream(path)(metadata=client)
        with suppress(grpc.RpcError, asyncio.InvalidStateError):
            await stream.write(_settings(number))
        opened.append(stream)
        yield


def telemetry(target: Target) -> Iterator[None]:
    """Sends changing settings over one stream."""
    channel = open_channels(target.grpc, 1)[0]
    some = [_settings(number, 900) for number in range(4)]
    yield
    while True:
        stream = channel.stream_stream(MESSAGING.methods["Telemetry"].path)
        responses = stream(cycle(some), metadata=_METADATA)
        try:
            for _ in responses:
                yield
        except grpc.RpcError:
            yield


def receives(target: Target) -> Iterator[None]:
    """Lets as many receives wait as the broker permits."""
    channels = open_channels(target.grpc)
    request = messaging.ReceiveMessageRequest(group=v2.Resource(name="receiving"), batch_size=32)
    request.message_queue.topic.name = ATTACKED
    request.invisible_duration.FromSeconds(60)
    request.long_polling_timeout.FromSeconds(20)
    data, path = request.SerializeToString(), MESSAGING.methods["ReceiveMessage"].path
    waiting: list[Any] = []
    commands: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    commands.put(_settings(0))
    path_of_settings = MESSAGING.methods["Telemetry"].path
    registered = channels[0].stream_stream(path_of_settings)(iter(commands.get, b""), None, _METADATA)
    yield
    for number in count():
        waiting.append(channels[number % _CHANNELS].unary_unary(path).future(data, None, _METADATA))
        if len(waiting) >= _WAITING:
            for one in waiting:
                one.cancel()
            waiting.clear()
        yield
    registered.cancel()


def _batch(rows: int) -> bytes:
    schema = pa.schema([("body", pa.binary()), ("keys", pa.list_(pa.string()))])
    batch = pa.record_batch({"body": [b"x" * 20] * rows, "keys": [["k"]] * rows}, schema)
    return columns.write_stream(schema, [batch])


def broken_arrow(target: Target) -> Iterator[None]:
    """Publishes batches with altered bytes."""
    chosen = random.Random(_SEED)
    whole = _batch(500)

    def break_one(_: int) -> tuple[str, bytes]:
        changed = bytearray(whole)
        for _ in range(chosen.randint(1, 8)):
            changed[chosen.randrange(len(changed))] = chosen.randrange(256)
        request = v1.PublishColumnsRequest(topic=ATTACKED, arrow_ipc=bytes(changed[: chosen.randint(8, len(changed))]))
        return COLUMNS.methods["PublishColumns"].path, request.SerializeToString()

    return call(target, map(break_one, count()), window=4)


def broken_protobuf(target: Target) -> Iterator[None]:
    """Calls all methods with random bytes."""
    paths = [method.path for service in (MESSAGING, COLUMNS, STAGES) for method in service.methods.values()]
    chosen = random.Random(_SEED)
    return call(target, ((path, os.urandom(chosen.randrange(1, 4_000))) for path in cycle(paths)))


def largest_lists(target: Target) -> Iterator[None]:
    """Asks for the bounds of as many topics as a request holds."""
    one = v1.QueryBoundsRequest(topics=[v1.TopicBoundsRequest(topic="t")]).SerializeToString()
    path, data = COLUMNS.methods["QueryBounds"].path, one * _ENTRIES  # entries of a list can stand one after the other
    return call(target, cycle([(path, data)]), window=1)


def largest_acks(target: Target) -> Iterator[None]:
    """Acknowledges as many messages as a request holds, with receipts that the broker never issued."""
    request = messaging.AckMessageRequest(group=v2.Resource(name="acking"), topic=v2.Resource(name=ATTACKED))
    for number in range(9_000):
        receipt = f"{number} 1700000000000 60000 1 0 broker-a {number % QUEUES} {number} {number}"
        request.entries.add(message_id=f"m{number}", receipt_handle=receipt)
    path, data = MESSAGING.methods["AckMessage"].path, request.SerializeToString()
    return call(target, cycle([(path, data)]), window=1)


def column_pulls(target: Target) -> Iterator[None]:
    """Pulls the largest batches of columns again and again."""
    channel = open_channels(target.grpc, 1)[0]
    publish = v1.PublishColumnsRequest(topic=ATTACKED, arrow_ipc=_batch(60_000)).SerializeToString()
    for _ in range(QUEUES):
        channel.unary_unary(COLUMNS.methods["PublishColumns"].path)(publish, ANSWER_S_MAX, _METADATA)
    queues = [v1.Queue(topic=ATTACKED, broker_name="broker-a", queue_id=queue) for queue in range(QUEUES)]
    request = v1.PullColumnsRequest(group="pulling", queues=[v1.QueuePull(queue=queue) for queue in queues])
    path, data = COLUMNS.methods["PullColumns"].path, request.SerializeToString()
    return call(target, cycle([(path, data)]), window=1)


def many_stages(target: Target) -> Iterator[None]:
    """Stages rows that are never committed."""
    batch = _batch(1_000)

    def stage(number: int) -> tuple[str, bytes]:
        request = stages.StageColumnsRequest(stage_id=f"s{number}", topic=ATTACKED, arrow_ipc=batch, timeout_ms=60_000)
        request.transaction.id = f"t{number % 1_000}"
        return STAGES.methods["StageColumns"].path, request.SerializeToString()

    return call(target, map(stage, count()), window=2)


def reflection(target: Target) -> Iterator[None]:
    """Asks gRPC's reflection for all descriptors."""
    files = (b"apache.rocketmq.v2.MessagingService", b"rmqpull.v1.ColumnService", b"none")
    # ServerReflectionRequest: field 4 is the name of a symbol.
    requests = [b"\x22" + bytes([len(name)]) + name for name in files]
    return call(target, cycle(("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", r) for r in requests))


def health(target: Target) -> Iterator[None]:
    """Asks for the health of services that exist and of others."""
    requests = [b"", *(b"\x0a\x06" + b"none%02d" % number for number in range(50))]
    return call(target, cycle(("/grpc.health.v1.Health/Check", request) for request in requests))


_SIZE = "size of a request, by its method"
CALLS = (
    Attack("metadata", "metadata of a megabyte", "gRPC's own limit of metadata", metadata),
    Attack("streams", "9,000 streams of telemetry that come and go", "telemetry streams", streams),
    Attack("telemetry", "settings with 900 topics in a loop", "topics in a client's settings", telemetry),
    Attack("receives", "20,000 receives over gRPC that wait", "receives that wait, and concurrent calls", receives),
    Attack("broken-arrow", "Arrow batches with changed bytes", "each is checked before its use", broken_arrow),
    Attack("broken-protobuf", "random bytes for every method", "each is checked", broken_protobuf),
    Attack("largest-lists", f"bounds of {_ENTRIES:,} topics in one call", _SIZE, largest_lists),
    Attack("largest-acks", "9,000 acknowledgements in one call", _SIZE, largest_acks),
    Attack("column-pulls", "the largest pulls of columns in a loop", "rows and bytes of a pull", column_pulls),
    Attack("stages", "stages that are never committed", "open stages, and their bytes", many_stages),
    Attack("reflection", "questions to reflection in a loop", "one call in turn", reflection),
    Attack("health", "questions about health in a loop", "one call in turn", health),
)
