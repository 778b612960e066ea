"""Brokers in this process, with and without the columnar extension, and the client for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_client.connection import Connection
from rmqpull_client.flow import Flow
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.grpc.channel import get_channel
from rmqpull_client.transports.port import BrokerClient
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rpc import MESSAGING

TIMEOUT_MS = 60_000
FLOW = Flow(pull_batch_size=256)


class Served:
    """A broker with the topic "orders" and a client of it."""

    def __init__(self, broker: RunningBroker, flow: Flow = FLOW) -> None:
        self.broker = broker
        self.endpoints = broker.endpoints
        self.client: BrokerClient = connect(Connection(self.endpoints, TIMEOUT_MS), flow)

    def send(self, *bodies: bytes) -> None:
        """Sends one message after the other by the standard protocol, which any broker takes."""
        channel = get_channel(Connection(self.endpoints, TIMEOUT_MS))
        for body in bodies:
            message = v2.Message(topic=v2.Resource(name="orders"), body=body)
            message.system_properties.message_id = "m"
            channel.call(MESSAGING.methods["SendMessage"], service.SendMessageRequest(messages=[message]))


Serve = Callable[..., Served]


@pytest.fixture(params=["columns", "none"])
def extensions(request: pytest.FixtureRequest) -> str:
    """Every test that serves a broker is run against both kinds."""
    return str(request.param)


@pytest.fixture
def serve(extensions: str, tmp_path: Path) -> Iterator[Serve]:
    """Serves "orders" with a number of queues and the batch that was published to it."""
    with ExitStack() as stack:

        def start(queues: int = 1, batch: pa.RecordBatch | None = None, flow: Flow = FLOW) -> Served:
            topics, data_dir = {"orders": queues}, str(tmp_path / "data")
            if batch is not None:
                # A broker without columns does not take them either: they are published before it opens the directory.
                with running_broker(topics, data_dir=data_dir) as publishing:
                    publisher = connect(Connection(publishing.endpoints, TIMEOUT_MS))
                    publisher.publish("orders", batch)
                    publisher.close()  # the next broker may get the same port, and offer something else there
            broker = stack.enter_context(running_broker(topics, data_dir=data_dir, extensions=extensions))
            served = Served(broker, flow)
            stack.callback(served.client.close)
            return served

        yield start
