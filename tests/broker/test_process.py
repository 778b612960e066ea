"""The broker as a process of its own: how it reports itself, how it ends, and what survives."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1

if TYPE_CHECKING:
    from tests.broker.conftest import Client, Connect, Serve, Started

SINGLE = v2.MessageQueue(topic=v2.Resource(name="single"), id=0)


def all_bodies(client: Client, queue: v2.MessageQueue) -> list[bytes]:
    """Everything that a queue holds, from its beginning."""
    bodies: list[bytes] = []
    while (pulled := client.pull(queue, len(bodies))).code == "OK":
        bodies += pulled.bodies
    return bodies


def start_parked_pull(client: Client) -> Started:
    """A pull that waits at the broker. Its group is there once it has come in, and then nothing comes before it."""
    pull = client.start_pull(SINGLE, 0, group="parked", wait_ms=250_000)
    while client.update_offset("parked", SINGLE, 0) != "OK":
        pass
    return pull


# --- a process and its words ------------------------------------------------------------------------------------------


def test_the_ready_line_is_all_that_is_on_standard_output(serve: Serve, connect: Connect) -> None:
    broker = serve("--topic", "single:1")
    port = broker.endpoints.removeprefix("127.0.0.1:")
    assert broker.ready_line == f"ready endpoints=127.0.0.1:{port} pid={broker.pid}\n"
    assert int(port) > 0
    assert connect(broker.endpoints).send_bodies("single", b"x") == [0]
    assert broker.end(signal.SIGTERM) == (0, "", "")


def test_the_ready_line_names_the_host_that_was_asked_for(serve: Serve, connect: Connect) -> None:
    broker = serve("--topic", "single:1", listen="localhost:0")
    assert re.fullmatch(r"localhost:\d+", broker.endpoints)
    assert connect(broker.endpoints).send_bodies("single", b"x") == [0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_answers_parked_pulls_and_ends_the_process_with_0(
    serve: Serve, connect: Connect, number: signal.Signals
) -> None:
    broker = serve("--topic", "single:1")
    client = connect(broker.endpoints)
    pull = start_parked_pull(client)
    assert broker.end(number) == (0, "", "")
    assert client.finish_pull(pull) == ("MESSAGE_NOT_FOUND", "NO_MESSAGE_IN_QUEUE", [], 0)


def test_logs_go_to_standard_error(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    first = serve("--topic", "single:1", data_dir=tmp_path)
    connect(first.endpoints).send_bodies("single", b"x")
    first.end(signal.SIGTERM)
    code, stdout, stderr = serve(data_dir=tmp_path).end(signal.SIGTERM)
    assert (code, stdout) == (0, "")
    assert re.search(r"INFO rmqpull_broker\.\S+: recovered 1 messages in 1 topics\n", stderr)


def test_logs_for_machines_are_one_object_a_line(serve: Serve, connect: Connect) -> None:
    broker = serve("--topic", "single:1", "--log-format", "json", "--log-level", "debug")
    connect(broker.endpoints).send_bodies("single", b"x")
    _, _, stderr = broker.end(signal.SIGTERM)
    [line] = [line for line in map(json.loads, stderr.splitlines()) if line["logger"].endswith("access")]
    assert {name: line[name] for name in ("level", "rpc", "client_id", "topic", "code")} == {
        "level": "DEBUG",
        "rpc": "SendMessage",
        "client_id": "tester",
        "topic": "single",
        "code": "OK",
    }


def test_metrics_are_on_a_page_of_their_own(serve: Serve, connect: Connect) -> None:
    broker = serve("--topic", "single:1", "--metrics-listen", "127.0.0.1:0")
    assert broker.ready_line.endswith(f" metrics={broker.metrics_address}\n")
    connect(broker.endpoints).send_bodies("single", b"x")
    with urllib.request.urlopen(f"http://{broker.metrics_address}/metrics", timeout=60) as page:
        assert 'rmqpull_broker_messages_in_total{topic="single"} 1.0' in page.read().decode().splitlines()
    assert broker.end(signal.SIGTERM) == (0, "", "")


def test_a_topic_takes_the_messages_of_its_type(serve: Serve, connect: Connect) -> None:
    types = ["NORMAL", "FIFO", "DELAY", "TRANSACTION"]
    broker = serve(*(word for name in types for word in ("--topic", f"{name.lower()}:3:{name}")))
    client = connect(broker.endpoints)
    for name in types:
        route = client.call("QueryRoute", service.QueryRouteRequest(topic=v2.Resource(name=name.lower())))
        assert [list(queue.accept_message_types) for queue in route.message_queues] == [
            [v2.MessageType.Value(name)]
        ] * 3
    for body in (b"1", b"2", b"3"):
        client.send_bodies("fifo", body, message_group="one group")
    queues = [v2.MessageQueue(topic=v2.Resource(name="fifo"), id=queue_id) for queue_id in range(3)]
    assert sorted(all_bodies(client, queue) for queue in queues) == [[], [], [b"1", b"2", b"3"]]


# --- what survives ----------------------------------------------------------------------------------------------------


def test_a_restart_keeps_messages_offsets_groups_and_lost_rows(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    first = serve("--topic", "single:1", data_dir=tmp_path)
    client = connect(first.endpoints)
    client.send_bodies("single", b"a", b"b")
    client.pull(SINGLE, 0, group="readers")
    client.update_offset("readers", SINGLE, 2)
    lost = v1.LostRange(queue=v1.Queue(topic="single", broker_name="broker-a"), from_offset=0, until_offset=9)
    client.call("ReportRowsLost", v1.ReportRowsLostRequest(query_id="q", ranges=[lost]))
    before = client.bounds("single", "q")
    first.end(signal.SIGTERM)

    client = connect(serve("--topic", "single:1", data_dir=tmp_path).endpoints)
    assert client.bounds("single", "q") == before
    assert all_bodies(client, SINGLE) == [b"a", b"b"]
    assert client.get_offset("readers", SINGLE) == ("OK", 2)
    assert client.update_offset("readers", SINGLE, 1) == "OK"
    assert client.send_bodies("single", b"c") == [2]


def test_without_a_data_directory_nothing_is_kept(serve: Serve, connect: Connect) -> None:
    first = serve("--topic", "single:1")
    connect(first.endpoints).send_bodies("single", b"a")
    first.end(signal.SIGTERM)
    assert all_bodies(connect(serve("--topic", "single:1").endpoints), SINGLE) == []
