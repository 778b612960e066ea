"""Fixtures of all tests of the client: brokers in this process, with and without the columnar extension."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from rmqpull_broker.testing import running_broker
from rmqpull_client.connection import Connection
from rmqpull_client.flow import Flow
from rmqpull_client.transports.choice import connect
from tests.harness.served_apache import ServedApache
from tests.harness.served_broker import FLOW, TIMEOUT_MS, ServeBroker, ServedBroker

OURS = ["columns", "none"]
REMOTING = "remoting"
APACHE = pytest.param("apache", marks=[pytest.mark.apache, pytest.mark.processes])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs each test that serves a broker against all kinds of server, and so over all transports.

    ``extensions`` is our broker with columns or without. In tests of the port it is also our broker, and Apache's,
    with a client of the remoting protocol. A test that names kinds itself says why.
    """
    own = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "extensions" in metafunc.fixturenames and not any("extensions" in names for names in own):
        is_of_port = metafunc.module.__name__.rpartition(".")[2].startswith("test_port")
        metafunc.parametrize("extensions", [*OURS, REMOTING, APACHE] if is_of_port else OURS)


@pytest.fixture
def serve(extensions: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ServeBroker]:
    """Serves a topic "orders" with a number of queues and the messages of a batch."""
    with ExitStack() as stack:

        def start_on_apache(queues: int = 1, batch: pa.RecordBatch | None = None, flow: Flow = FLOW) -> ServedApache:
            served = ServedApache(request.getfixturevalue("apache"), queues, flow)
            stack.callback(served.client.close)
            if batch is not None:
                served.publish(batch)
            return served

        def start(queues: int = 1, batch: pa.RecordBatch | None = None, flow: Flow = FLOW) -> ServedBroker:
            topics, data_dir = {"orders": queues}, str(tmp_path / "data")
            if batch is not None:
                # A broker without columns does not accept them: publish before it opens the directory.
                with running_broker(topics, data_dir=data_dir) as publishing:
                    publisher = connect(Connection(publishing.endpoints, TIMEOUT_MS))
                    publisher.publish("orders", batch)
                    publisher.close()  # the next broker may get the same port, with other extensions
            speaks_remoting = extensions == REMOTING
            others = "none" if speaks_remoting else extensions
            broker = stack.enter_context(
                running_broker(topics, data_dir=data_dir, extensions=others, remoting=speaks_remoting)
            )
            served = ServedBroker(broker, flow)
            stack.callback(served.client.close)
            return served

        yield cast(ServeBroker, start_on_apache) if extensions == "apache" else start
