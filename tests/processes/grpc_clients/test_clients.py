"""A process with gRPC clients: its answers, its refusals, and its end."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from processes.children import ProcessFailed
from rmqpull_broker.testing import running_broker
from tests.clients.programs.grpc.clients import ClientRefused, GrpcClients
from tests.clients.programs.grpc.python_programs import start_python


@pytest.fixture
def clients(processes_allowed: None, tmp_path: Path) -> Iterator[GrpcClients]:
    with GrpcClients(start_python(tmp_path)) as process:
        yield process


def test_each_client_answers_its_own_calls(clients: GrpcClients) -> None:
    with running_broker({"orders": 4}) as broker:
        producers = [clients.start("producer", broker.endpoints, topics=["orders"]) for _ in range(3)]
        with ThreadPoolExecutor(3) as threads:
            sent = threads.map(lambda one: one.call("send", topic="orders", body=one.name)["messageId"], producers)
        stored = {row.message.msg_id: row.message.body.decode() for row in broker.messages("orders")}
        assert stored == {sent_id: one.name for sent_id, one in zip(sent, producers, strict=True)}


def test_a_call_that_a_library_does_not_have_is_unsupported(clients: GrpcClients) -> None:
    with running_broker({"orders": 1}) as broker:
        producer = clients.start("producer", broker.endpoints)
        with pytest.raises(ClientRefused, match=r"^unsupported: fly$"):
            producer.call("fly")
        with pytest.raises(ClientRefused, match=r"^unsupported: kind kite$"):
            clients.call("another", "start", kind="kite")


def test_a_client_that_was_not_started_or_was_shut_down_answers_with_an_error(clients: GrpcClients) -> None:
    with pytest.raises(ClientRefused, match="There is no client nobody"):
        clients.call("nobody", "send")
    with running_broker({"orders": 1}) as broker:
        producer = clients.start("producer", broker.endpoints)
        producer.shut_down()
        with pytest.raises(ClientRefused, match="There is no client"):
            producer.call("send", topic="orders", body="lost")


def test_calls_of_a_process_that_was_killed_fail(clients: GrpcClients) -> None:
    clients.kill()
    with pytest.raises(ProcessFailed, match="clients for Python ended"):
        clients.call("nobody", "send")
