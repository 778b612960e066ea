"""Fixtures of all tests of the client: brokers in this process, with and without the columnar extension."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from rmqpull_broker.testing import running_broker
from rmqpull_client.connection import Connection
from rmqpull_client.flow import Flow
from rmqpull_client.transports.choice import connect
from tests.harness.served_broker import FLOW, TIMEOUT_MS, ServeBroker, ServedBroker


@pytest.fixture(params=["columns", "none"])
def extensions(request: pytest.FixtureRequest) -> str:
    """Each test that serves a broker runs against both kinds of server, and so over both transports."""
    return str(request.param)


@pytest.fixture
def serve(extensions: str, tmp_path: Path) -> Iterator[ServeBroker]:
    """Serves a topic "orders" with a number of queues and the messages of a batch."""
    with ExitStack() as stack:

        def start(queues: int = 1, batch: pa.RecordBatch | None = None, flow: Flow = FLOW) -> ServedBroker:
            topics, data_dir = {"orders": queues}, str(tmp_path / "data")
            if batch is not None:
                # A broker without columns does not accept them: publish before it opens the directory.
                with running_broker(topics, data_dir=data_dir) as publishing:
                    publisher = connect(Connection(publishing.endpoints, TIMEOUT_MS))
                    publisher.publish("orders", batch)
                    publisher.close()  # the next broker may get the same port, with other extensions
            broker = stack.enter_context(running_broker(topics, data_dir=data_dir, extensions=extensions))
            served = ServedBroker(broker, flow)
            stack.callback(served.client.close)
            return served

        yield start
