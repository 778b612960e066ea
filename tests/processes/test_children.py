"""Child processes end with everything that they have started, even in other process groups."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from processes.children import Child, Children, ProcessFailed, Signals
from processes.process_table import list_session
from rmqpull_broker.testing import BrokerProcess

# Like PySpark's worker daemon: a child in its own process group, which survives a kill of its parent's group.
FAMILY = """
import os, signal, sys, time
if not os.fork():
    os.setpgid(0, 0)
    print("born", flush=True)
    time.sleep(600)
time.sleep(600)
"""


@pytest.fixture
def signals() -> Iterator[Signals]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield Signals()
    for number, handler in before.items():
        signal.signal(number, handler)


def start(children: Children, code: str, folder: Path) -> Child:
    return children.start("child", [sys.executable, "-c", code], folder / "log")


@pytest.mark.processes
def test_a_kill_reaches_children_in_other_groups(tmp_path: Path, signals: Signals) -> None:
    with Children(os.environ, signals) as children:
        child = start(children, FAMILY, tmp_path)
        assert child.read_line(30) == "born"
        assert len(list_session(child.pid)) == 2
        assert len(child.kill()) == 2
        assert list_session(child.pid) == []


@pytest.mark.processes
def test_the_end_of_the_block_is_the_end_of_every_process(tmp_path: Path, signals: Signals) -> None:
    with pytest.raises(ZeroDivisionError), Children(os.environ, signals) as children:  # noqa: PT012
        started = [start(children, FAMILY, tmp_path) for _ in range(2)]
        assert [child.read_line(30) for child in started] == ["born", "born"]
        raise ZeroDivisionError
    assert [list_session(child.pid) for child in started] == [[], []]


@pytest.mark.processes
def test_lines_then_the_end(tmp_path: Path, signals: Signals) -> None:
    with Children(os.environ, signals) as children:
        child = start(
            children,
            "import sys; print('one'); print('two'); print('why\\n at java.Thread', file=sys.stderr)",
            tmp_path,
        )
        assert [child.read_line(30), child.read_line(30)] == ["one", "two"]
        with pytest.raises(EOFError):
            child.read_line(30)
        assert child.wait(30) == 0
        assert child.log_end() == f"\n  why\n  All of it is in {tmp_path / 'log'}"


@pytest.mark.processes
def test_a_process_that_does_not_end_is_named(tmp_path: Path, signals: Signals) -> None:
    with Children(os.environ, signals) as children:
        child = start(children, FAMILY, tmp_path)
        with pytest.raises(ProcessFailed, match="The child did not end within 0 s"):
            child.wait(0.01)


def test_a_signal_is_an_interrupt(signals: Signals) -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    assert signals.received == signal.SIGTERM


def test_a_signal_waits_until_the_process_is_known(signals: Signals) -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), signals.held():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        reached = True
    assert reached


def test_a_signal_replaces_the_error_that_it_has_caused(signals: Signals) -> None:
    with pytest.raises(KeyboardInterrupt), signals.held():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        raise ProcessFailed


@pytest.mark.processes
def test_a_broker_can_be_restarted_and_ends_with_the_block(signals: Signals) -> None:
    broker = BrokerProcess()
    with Children(os.environ, signals) as children:
        children.start_broker(broker)
        endpoints = broker.endpoints
        broker.kill()
        children.start_broker(broker)
        assert (broker.is_running, broker.endpoints) == (True, endpoints)
    assert not broker.is_running
