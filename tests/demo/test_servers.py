"""The servers of the demo: what was published is there after a kill, at the same address."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from demo.apache import ApacheServer
from demo.flights_data import read_flights
from demo.run_folder import RunFolder
from demo.servers import QUEUES, RmqpullServer, Server
from processes.apache.releases import Release


@pytest.mark.processes
def test_a_killed_server_comes_back_with_its_messages_at_the_same_address(tmp_path: Path) -> None:
    check_server(tmp_path, RmqpullServer)


@pytest.mark.nightly
def test_apaches_server_does_the_same(tmp_path: Path, apache_release: Release) -> None:
    check_server(tmp_path, lambda folder: ApacheServer(folder, apache_release))


def check_server(tmp_path: Path, make_server: Callable[[RunFolder], Server]) -> None:
    flights = read_flights(1_000)
    published: list[int] = []
    with ExitStack() as running:
        server = make_server(running.enter_context(RunFolder.make_new(tmp_path)))
        running.callback(server.stop)
        server.start()
        options, pid = dict(server.options), server.pid
        server.publish(flights, published.append)
        assert sum(published) == flights.num_rows
        server.kill()
        server.start()
        offsets = server.read_offsets("nobody")
        assert sum(offsets.max_offsets.values()) == flights.num_rows
        assert offsets.max_offsets.keys() == offsets.consumer_offsets.keys() == set(range(QUEUES))
        assert not any(offsets.consumer_offsets.values())  # an unknown group is at 0 where no message was deleted
        assert (dict(server.options), server.pid != pid) == (options, True)
