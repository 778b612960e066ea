"""``rmqpull tail``: the newest messages of topics, and those that come while it runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from rmqpull_broker.core.model import Message
from rmqpull_broker.testing import RunningBroker
from rmqpull_client import connect
from tests.harness.broker_processes import StartBroker
from tests.harness.cli import RunCommand, error_of


@contextmanager
def tailing(servers: dict[str, str], *arguments: str) -> Iterator[Iterator[str]]:
    """Runs ``tail`` in a process, and ends it as Ctrl-C does. Yields the bodies of its lines."""
    command = [sys.executable, "-m", "rmqpull_client", "tail", *arguments, "-f", "--json"]
    environment = {**os.environ, **servers}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            yield (json.loads(line)["body"] for line in process.stdout)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            assert (process.returncode, errors) == (0, "")
        finally:
            process.kill()


@pytest.mark.parametrize("broker", ["manual"], indirect=True, ids=["manual clock"])
def test_the_newest_messages_of_topics_are_shown_in_order(broker: RunningBroker, run: RunCommand) -> None:
    for number in range(6):
        broker.send(("orders", "single")[number % 2], Message(b"%d" % number, f"id-{number}", tags="paid", keys=("k",)))
        broker.clock.advance(1)
    lines = [line.split("  ") for line in run("tail", "orders", "single", "-n", "2").stdout.splitlines()]
    assert [line[1:] for line in lines] == [
        ["orders/broker-a/1", "0", "paid", "k", "2"],
        ["single/broker-a/0", "1", "paid", "k", "3"],
        ["orders/broker-a/0", "1", "paid", "k", "4"],
        ["single/broker-a/0", "2", "paid", "k", "5"],
    ]


@pytest.mark.processes
def test_messages_are_followed(broker: RunningBroker, servers: dict[str, str]) -> None:
    broker.send("orders", b"first", b"second")
    with tailing(servers, "orders", "single", "-n", "1") as bodies:
        assert next(bodies) == "second"
        broker.send("single", b"third")
        assert next(bodies) == "third"
        broker.create_topic("other")
        broker.send("orders", Message(b"fourth", "id-4", tags="a"))
        assert next(bodies) == "fourth"


@pytest.mark.processes
def test_what_was_stored_since_a_time_is_followed_through_a_filter(
    broker: RunningBroker, servers: dict[str, str]
) -> None:
    for number in range(4):
        broker.send("single", Message(b"%d" % number, f"id-{number}", tags="odd" if number % 2 else "even"))
    with tailing(servers, "single", "--since", "2013-01-31T12:00:00Z", "--tag", "odd") as bodies:
        assert [next(bodies), next(bodies)] == ["1", "3"]
        broker.send("single", Message(b"4", "id-4", tags="even"), Message(b"5", "id-5", tags="odd"))
        assert next(bodies) == "5"


@pytest.mark.processes
def test_a_restart_of_the_broker_goes_unnoticed(start_broker: StartBroker, tmp_path: Path) -> None:
    process = start_broker({"single": 1}, data_dir=tmp_path)
    client = connect(process.endpoints)
    with tailing({"RMQPULL_ENDPOINTS": process.endpoints}, "single") as bodies:
        for body in (b"before", b"after"):
            client.publish("single", pa.record_batch({"body": [body]}))
            assert next(bodies) == body.decode()
            process.restart()
    client.close()


def test_a_limit_ends_it(broker: RunningBroker, run: RunCommand) -> None:
    broker.send("single", *(b"%d" % number for number in range(5)))
    for arguments, bodies in (((), "34"), (("--limit", "1"), "3"), (("-f", "--limit", "2"), "34")):
        lines = run("tail", "single", "-n", "2", *arguments).stdout.splitlines()
        assert "".join(line[-1] for line in lines) == bodies
    since = run("tail", "single", "--since", "2013-01-31T12:00:00Z", "-f", "--limit", "4")
    assert len(since.stdout.splitlines()) == 4


def test_an_impossible_tail_is_refused(run: RunCommand) -> None:
    assert "topic none does not exist at" in error_of(run("tail", "orders", "none"))
    assert "--since needs --follow" in error_of(run("tail", "orders", "--since", "now"), 2)
