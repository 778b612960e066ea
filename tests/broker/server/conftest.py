"""Fixtures of tests of the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.parking_watch import ParkingWatch, watch_parking
from tests.harness.rpc_client import Connect, OpenTelemetryStream, RpcClient, RpcStream, make_settings


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker(topics={"orders": 2, "single": 1}) as running:
        yield running


@pytest.fixture
def client(broker: RunningBroker, connect: Connect) -> RpcClient:
    return connect(broker.endpoints)


@pytest.fixture
def parking_watch(monkeypatch: pytest.MonkeyPatch) -> ParkingWatch:
    return watch_parking(monkeypatch)


@pytest.fixture
def open_telemetry_stream() -> Iterator[OpenTelemetryStream]:
    """Opens the Telemetry stream of a client and exchanges settings. It stays open until the test ends."""
    with ExitStack() as streams:

        def open_stream(client: RpcClient, client_type: str, *topics: str, group: str = "") -> RpcStream:
            stream = client.open_stream("Telemetry")
            streams.callback(stream.cancel)
            stream.send(service.TelemetryCommand(settings=make_settings(client_type, *topics, group=group)))
            assert stream.receive().status.code == v2.Code.OK
            return stream

        yield open_stream
