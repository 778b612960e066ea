"""The servers of the demo: what was published is there after a kill, at the same address."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from demo.flights import SERVERS
from demo.flights_data import read_flights
from demo.run_folder import RunFolder
from demo.servers import QUEUES
from processes.maven import SoftwareMissing


@pytest.mark.processes
@pytest.mark.parametrize("name", SERVERS)
def test_a_killed_server_comes_back_with_its_messages_at_the_same_address(tmp_path: Path, name: str) -> None:
    flights = read_flights(1_000)
    published: list[int] = []
    with ExitStack() as running:
        server = SERVERS[name](running.enter_context(RunFolder.make_new(tmp_path)))
        running.callback(server.stop)
        try:
            server.start()
        except SoftwareMissing as missing:
            pytest.skip(f"Apache RocketMQ cannot run here: {missing}")
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
