"""What waiting receives and messages in flight add to the broker's resident set."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pyarrow as pa

from bench.broker_load import GROUP, METADATA, checked, connections
from bench.comparison import OURS, Comparison
from processes.process_table import Process
from rmqpull_broker.testing import BrokerProcess
from rmqpull_client.connection import Connection
from rmqpull_client.transports.choice import get_producer
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.rpc import MESSAGING

TOPIC = "received"
_CONNECTIONS = 32
_RECEIVED_AT_ONCE = 8
_PUBLISHED_ROWS = 20_000
_BODY = b"x" * 100
_INVISIBLE_S = 12 * 3600
_POLL_S = 20
_LOOP = asyncio.new_event_loop()
"""One event loop for everything: gRPC's poller keeps every loop that it has used, and complains about closed ones."""
_UNTIL_ALL_WAIT_S = 10.0


def measure_memory(waiting: int, in_flight: int) -> list[Comparison]:
    """Measures both, each on a broker of its own."""
    waits = Comparison("grpc-waiting", f"memory of {waiting:,} waiting receives", "MB")
    flights = Comparison("grpc-in-flight", f"memory of {in_flight:,} messages in flight", "MB")
    with BrokerProcess({TOPIC: 8}) as broker:
        waits.add(OURS, _LOOP.run_until_complete(_wait(broker, waiting)))
    with BrokerProcess({TOPIC: 8}) as broker:
        _fill(broker.endpoints, in_flight)
        _LOOP.run_until_complete(
            _receive(broker.endpoints, "before", in_flight)
        )  # what reading takes, without the flights
        flights.add(OURS, _LOOP.run_until_complete(_receive(broker.endpoints, GROUP, in_flight, broker)))
    return [waits, flights]


def _fill(endpoints: str, messages: int) -> None:
    producer = get_producer(Connection(endpoints=endpoints))
    for first in range(0, messages, _PUBLISHED_ROWS):
        rows = min(_PUBLISHED_ROWS, messages - first)
        batch = pa.record_batch({"body": pa.array([_BODY] * rows, pa.binary())})
        producer.start_publish([(TOPIC, rows)], batch, False)()


def _make_receive(group: str) -> messaging.ReceiveMessageRequest:
    queue = v2.MessageQueue(topic=v2.Resource(name=TOPIC))
    request = messaging.ReceiveMessageRequest(group=v2.Resource(name=group), message_queue=queue, batch_size=32)
    request.invisible_duration.FromSeconds(_INVISIBLE_S)
    request.long_polling_timeout.FromSeconds(_POLL_S)
    return request


@asynccontextmanager
async def _registered(endpoints: str, group: str) -> AsyncIterator[list[grpc.aio.Channel]]:
    """Yields connections of a consumer whose settings the broker has."""
    settings = v2.Settings(client_type=v2.ClientType.SIMPLE_CONSUMER)
    settings.subscription.group.name = group
    async with connections(endpoints, _CONNECTIONS) as opened:
        telemetry = MESSAGING.methods["Telemetry"]
        stream = opened[0].stream_stream(
            telemetry.path,
            request_serializer=lambda command: command.SerializeToString(),
            response_deserializer=telemetry.response.FromString,
        )(None, metadata=METADATA)
        await stream.write(messaging.TelemetryCommand(settings=settings))
        checked(await stream.read())
        yield opened
        stream.cancel()


def _start_receive(channel: grpc.aio.Channel, group: str) -> Any:
    method = MESSAGING.methods["ReceiveMessage"]
    stub = channel.unary_stream(
        method.path,
        request_serializer=lambda request: request.SerializeToString(),
        response_deserializer=method.response.FromString,
    )
    return stub(_make_receive(group), metadata=METADATA)


async def _wait(broker: BrokerProcess, waiting: int) -> float:
    """Returns by how many megabytes waiting receives let the broker grow."""
    async with _registered(broker.endpoints, GROUP) as opened:
        before = Process(broker.pid).resident_mb()
        started = [_start_receive(opened[number % _CONNECTIONS], GROUP) for number in range(waiting)]
        await asyncio.sleep(_UNTIL_ALL_WAIT_S)
        grown = Process(broker.pid).resident_mb() - before
        if any(one.done() for one in started):
            raise SystemExit("a receive was answered instead of waiting")
        for one in started:
            one.cancel()
        return grown


async def _receive(endpoints: str, group: str, messages: int, broker: BrokerProcess | None = None) -> float:
    """Receives so many messages and acknowledges none. Returns by how many megabytes the broker has grown."""
    async with _registered(endpoints, group) as opened:
        before = 0.0 if broker is None else Process(broker.pid).resident_mb()
        left = messages

        async def receive(number: int) -> None:
            nonlocal left
            while left > 0:
                responses = [response async for response in _start_receive(opened[number], group)]
                left -= sum(response.HasField("message") for response in responses)

        await asyncio.gather(*map(receive, range(_RECEIVED_AT_ONCE)))
        return 0.0 if broker is None else Process(broker.pid).resident_mb() - before
