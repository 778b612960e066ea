"""Fixtures of all tests of the broker: clients, and brokers that run as processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from rmqpull_broker.core.errors import BrokerError
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from tests.harness.broker_processes import StartProcess, run_processes
from tests.harness.proofs import CODE, deviations
from tests.harness.rpc_client import Connect, RpcClient


@pytest.fixture(autouse=True)
def proof(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test that proves a deviation must see every code that the row in docs/broker-support.md names."""
    rows = [mark.args[0] for mark in request.node.iter_markers("proves")]
    if not rows:
        yield
        return
    seen: set[str] = set()

    def see(refusal: BrokerError, *_: object) -> None:
        seen.add(refusal.code)

    monkeypatch.setattr(BrokerError, "__init__", see)
    yield
    told = deviations()
    for row in rows:
        assert row in told, f"docs/broker-support.md has no deviation {row!r}"
        codes = set(CODE.findall(told[row])) & set(v2.Code.keys())
        assert codes <= seen, f"{row!r}: the page says {sorted(codes)}, and this test saw {sorted(seen)}"


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes clients of a broker. Their channels are closed after the test."""
    with ExitStack() as channels:

        def open_client(endpoints: str, client_id: str = "tester") -> RpcClient:
            client = RpcClient(endpoints, client_id)
            channels.callback(client.channel.close)
            return client

        yield open_client


@pytest.fixture
def start_process(processes_allowed: None) -> Iterator[StartProcess]:
    with run_processes() as start:
        yield start
