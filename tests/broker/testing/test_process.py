"""A broker process: the same address after a kill, errors with a reason, and no process left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rmqpull_broker.core.model import TopicType
from rmqpull_broker.testing import BrokerProcess, BrokerProcessError
from tests.harness.rpc_client import Connect


def is_there(pid: int) -> bool:
    """Whether a process with this id exists, including one that has ended and is not reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.processes
def test_a_restarted_broker_has_its_address_and_its_messages(connect: Connect, tmp_path: Path) -> None:
    with BrokerProcess({"orders": 1, "slips": (1, TopicType.FIFO)}, data_dir=tmp_path / "data") as broker:
        first, endpoints = broker.pid, broker.endpoints
        connect(endpoints).send_bodies("orders", b"one")
        broker.kill()
        assert not is_there(first)
        broker.start()
        assert (broker.endpoints, broker.is_running) == (endpoints, True)
        assert connect(endpoints).send_bodies("orders", b"two") == [1]
        broker.stop()
        assert not is_there(broker.pid)
        broker.start()
        assert connect(endpoints).send_bodies("orders", b"three") == [2]
        with pytest.raises(BrokerProcessError, match=f"already runs, as process {broker.pid}"):
            broker.start()
    assert not is_there(broker.pid)


@pytest.mark.processes
def test_arguments_and_environment_reach_it_and_can_be_changed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    broker = BrokerProcess(
        extensions="none",
        arguments=["--metrics-listen", "127.0.0.1:0"],
        environment={"RMQPULL_BROKER_LOG_LEVEL": "debug"},
        log_file=log,
    )
    with broker:
        assert broker.metrics_endpoints is not None
    first = log.read_text(encoding="utf-8")
    assert broker.log == first
    broker.arguments = ("--data-dir", str(tmp_path / "data"))
    broker.topics = {"orders": 2}
    for _ in range(2):
        with broker:
            pass
    assert "recovered 0 messages in 1 topics" in broker.log
    assert log.read_text(encoding="utf-8").startswith(first)


@pytest.mark.processes
def test_a_broker_that_does_not_start_says_why() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        broker = BrokerProcess(listen=f"127.0.0.1:{other.getsockname()[1]}")
        with pytest.raises(BrokerProcessError, match=r"(?s)exit code 1 before .*: cannot listen on .* in use"):
            broker.start()
    assert not is_there(broker.pid)


@pytest.mark.processes
def test_a_broker_that_is_not_ready_in_time_is_killed() -> None:
    broker = BrokerProcess(ready_timeout_s=0.001)
    with pytest.raises(BrokerProcessError, match=r"not ready within 0\.001 s: \S+ -m rmqpull_broker serve"):
        broker.start()
    assert not is_there(broker.pid)


@pytest.mark.processes
def test_a_broker_that_does_not_stop_in_time_can_be_killed() -> None:
    with BrokerProcess() as broker:
        broker.send_signal(signal.SIGSTOP)
        with pytest.raises(BrokerProcessError, match="did not end within 0 s"):
            broker.wait(0.01)
        broker.kill()
        broker.kill()
        broker.stop()
        assert not is_there(broker.pid)


@pytest.mark.processes
def test_stopping_a_broker_that_died_is_an_error() -> None:
    with BrokerProcess() as broker:
        broker.send_signal(signal.SIGKILL)
        with pytest.raises(BrokerProcessError, match="ended with exit code -9"):
            broker.stop()


@pytest.mark.processes
def test_a_failing_block_stops_the_broker_too() -> None:
    broker = BrokerProcess()
    with pytest.raises(ZeroDivisionError), broker:
        raise ZeroDivisionError
    assert not is_there(broker.pid)


def test_a_broker_that_was_never_started_has_no_process() -> None:
    broker = BrokerProcess()
    broker.kill()
    broker.stop()
    assert (broker.is_running, broker.log) == (False, "")
    with pytest.raises(BrokerProcessError, match="has not been started"):
        _ = broker.pid


@pytest.mark.processes
def test_a_program_that_only_starts_processes_does_not_import_the_broker() -> None:
    code = "import sys, rmqpull_broker.testing as t; t.BrokerProcess(); print({'grpc', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "set()\n"
