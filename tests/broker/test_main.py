"""The broker in another process: its ready line and logs, its end, and what survives."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rmqpull.v1 import admin_pb2 as admin
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.broker_processes import StartProcess
from tests.harness.rpc_client import Connect, PendingCall, RpcClient
from tests.harness.waiting import wait_until

WAIT_S = 60

SINGLE = v2.MessageQueue(topic=v2.Resource(name="single"), id=0)


def all_bodies(client: RpcClient, queue: v2.MessageQueue) -> list[bytes]:
    """Reads all messages of a queue."""
    bodies: list[bytes] = []
    while (pulled := client.pull(queue, len(bodies))).code == "OK":
        bodies += pulled.bodies
    return bodies


def start_parked_pull(client: RpcClient) -> PendingCall:
    """Starts a pull that parks. Returns when its group exists: then the pull is in the broker."""
    pull = client.start_pull(SINGLE, 0, group="parked", wait_ms=250_000)
    wait_until(lambda: client.update_offset("parked", SINGLE, 0) == "OK", "come in")
    return pull


# --- a process and its output -----------------------------------------------------------------------------------------


def test_a_variable_says_who_administrates_and_the_log_says_so_where_others_may_reach_it(
    start_process: StartProcess, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only this machine reaches this spelling of 127.0.0.1, but the broker does not know that."""
    monkeypatch.setenv("RMQPULL_BROKER_ADMIN_FROM", "none")
    broker = start_process("--topic", "single:1", "--remoting", "127.1:0")
    client = connect(broker.endpoints)
    assert client.code("DeleteTopic", admin.DeleteTopicRequest(name="single")) == "FORBIDDEN"
    assert client.code("PutTopic", admin.PutTopicRequest(name="other")) == "OK"
    (line,) = broker.log.splitlines()
    assert "anyone who can reach 127.1 can " in line
    assert " is allowed for nobody (--admin-from): see docs/access.md" in line


@pytest.mark.processes
def test_the_ready_line_is_the_only_output(connect: Connect) -> None:
    command = [sys.executable, "-m", "rmqpull_broker", "serve", "--listen", "127.0.0.1:0", "--topic", "single:1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as broker:
        killer = threading.Timer(WAIT_S, broker.kill)  # so that the test cannot block for ever
        killer.start()
        assert broker.stdout is not None
        ready = re.fullmatch(r"ready endpoints=127\.0\.0\.1:(\d+) pid=(\d+)\n", broker.stdout.readline())
        assert ready is not None
        assert (int(ready[1]) > 0, int(ready[2])) == (True, broker.pid)
        assert connect(f"127.0.0.1:{ready[1]}").send_bodies("single", b"x") == [0]
        broker.terminate()
        assert broker.communicate(timeout=WAIT_S) == ("", "")
        killer.cancel()
    assert broker.returncode == 0


def test_the_ready_line_has_the_given_host(start_process: StartProcess, connect: Connect) -> None:
    broker = start_process("--topic", "single:1", listen="localhost:0")
    assert re.fullmatch(r"localhost:\d+", broker.endpoints)
    assert connect(broker.endpoints).send_bodies("single", b"x") == [0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_answers_parked_pulls_and_ends_the_process_with_0(
    start_process: StartProcess, connect: Connect, number: signal.Signals
) -> None:
    broker = start_process("--topic", "single:1")
    client = connect(broker.endpoints)
    pull = start_parked_pull(client)
    broker.send_signal(number)
    assert (broker.wait(WAIT_S), broker.log) == (0, "")
    assert client.finish_pull(pull) == ("MESSAGE_NOT_FOUND", "NO_MESSAGE_IN_QUEUE", [], 0)


def test_logs_go_to_standard_error(start_process: StartProcess, connect: Connect, tmp_path: Path) -> None:
    first = start_process("--topic", "single:1", data_dir=tmp_path)
    connect(first.endpoints).send_bodies("single", b"x")
    first.stop()
    second = start_process(data_dir=tmp_path)
    second.stop()
    assert re.search(r"INFO rmqpull_broker\.\S+: recovered 1 messages in 1 topics\n", second.log)


def test_json_logs_have_one_object_per_line(start_process: StartProcess, connect: Connect) -> None:
    broker = start_process("--topic", "single:1", "--log-format", "json", "--log-level", "debug")
    connect(broker.endpoints).send_bodies("single", b"x")
    broker.stop()
    [line] = [line for line in map(json.loads, broker.log.splitlines()) if line["logger"].endswith("access")]
    assert {name: line[name] for name in ("level", "rpc", "client_id", "topic", "code")} == {
        "level": "DEBUG",
        "rpc": "SendMessage",
        "client_id": "tester",
        "topic": "single",
        "code": "OK",
    }


def test_metrics_are_on_a_page_of_their_own(start_process: StartProcess, connect: Connect) -> None:
    broker = start_process("--topic", "single:1", "--metrics-listen", "127.0.0.1:0")
    connect(broker.endpoints).send_bodies("single", b"x")
    with urllib.request.urlopen(f"http://{broker.metrics_endpoints}/metrics", timeout=60) as page:
        assert 'rmqpull_broker_messages_in_total{topic="single"} 1.0' in page.read().decode().splitlines()
    broker.stop()
    assert broker.log == ""


def test_a_topic_accepts_only_messages_of_its_type(start_process: StartProcess, connect: Connect) -> None:
    types = ["NORMAL", "FIFO", "DELAY", "TRANSACTION"]
    broker = start_process(*(word for name in types for word in ("--topic", f"{name.lower()}:3:{name}")))
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


def test_a_restart_keeps_messages_offsets_groups_and_lost_rows(
    start_process: StartProcess, connect: Connect, tmp_path: Path
) -> None:
    first = start_process("--topic", "single:1", data_dir=tmp_path)
    client = connect(first.endpoints)
    client.send_bodies("single", b"a", b"b")
    client.pull(SINGLE, 0, group="readers")
    client.update_offset("readers", SINGLE, 2)
    lost = v1.LostRange(queue=v1.Queue(topic="single", broker_name="broker-a"), from_offset=0, until_offset=9)
    client.call("ReportRowsLost", v1.ReportRowsLostRequest(query_id="q", ranges=[lost]))
    before = client.bounds("single", "q")
    first.stop()

    client = connect(start_process("--topic", "single:1", data_dir=tmp_path).endpoints)
    assert client.bounds("single", "q") == before
    assert all_bodies(client, SINGLE) == [b"a", b"b"]
    assert client.get_offset("readers", SINGLE) == ("OK", 2)
    assert client.update_offset("readers", SINGLE, 1) == "OK"
    assert client.send_bodies("single", b"c") == [2]


def test_without_a_data_directory_nothing_is_stored(start_process: StartProcess, connect: Connect) -> None:
    first = start_process("--topic", "single:1")
    connect(first.endpoints).send_bodies("single", b"a")
    first.stop()
    assert all_bodies(connect(start_process("--topic", "single:1").endpoints), SINGLE) == []
