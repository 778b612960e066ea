"""Reserved ports belong to one holder, in any process, and are free."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from processes.ports import ReservedPorts
from tests.harness.waiting import WAIT_S

TAKE = "from processes.ports import ReservedPorts; print(*(ReservedPorts().first for _ in range(50)))"


def test_two_holders_have_different_ports() -> None:
    with ExitStack() as held:
        firsts = [held.enter_context(ReservedPorts()).first for _ in range(100)]
    assert len(set(firsts)) == 100
    assert all(abs(one - other) >= 10 for one in firsts for other in firsts if one != other)


@pytest.mark.processes
def test_another_process_gets_other_ports() -> None:
    with ExitStack() as held:
        ours = {held.enter_context(ReservedPorts()).first for _ in range(100)}
        command = [sys.executable, "-c", TAKE]
        taken = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=True).stdout
    assert ours.isdisjoint(map(int, taken.split()))


def test_ports_with_a_listener_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with ReservedPorts() as ports, socket.socket() as listener:
        busy = ports.first
        listener.bind(("127.0.0.1", busy + 9))
        listener.listen()
        ports.release()
        others = iter([busy])
        monkeypatch.setattr("random.randrange", lambda *_: next(others, busy + 10))
        with ReservedPorts() as next_ones:
            assert next_ones.first == busy + 10


def test_released_ports_can_be_held_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = ReservedPorts()
    monkeypatch.setattr("random.randrange", lambda *_: ports.first)
    ports.release()
    with ReservedPorts() as again:
        assert again.first == ports.first
