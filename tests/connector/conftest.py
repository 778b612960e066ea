"""Fixtures of all tests of the connector."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.reading import batch_reader, stream_reader
from rmqpull_client.connection import Connection
from rmqpull_client.flow import Flow
from rmqpull_client.model import Bounds
from rmqpull_client.transports.port import BrokerClient
from tests.harness.fake_broker_client import FakeBrokerClient, ManualClock


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBrokerClient:
    """Stands for the broker of every reader: two queues, the first with messages [10, 14)."""
    fake = FakeBrokerClient({0: Bounds(10, 14), 1: Bounds(0, 0)})

    def connect(connection: Connection, flow: Flow) -> BrokerClient:
        return fake

    monkeypatch.setattr(stream_reader, "connect", connect)
    monkeypatch.setattr(batch_reader, "connect", connect)
    return fake


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
