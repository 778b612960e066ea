"""Who may change what over Docker's bridge: for a container, this machine is another one (docs/access.md)."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from processes.apache.calls import CallRefused, Calls
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.rmqpull.v1 import admin_pb2 as admin
from tests.harness.containers import IMAGE, StartContainer
from tests.harness.rpc_client import RpcClient
from tests.harness.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "broker.md"
COMMANDS = re.findall(r"^    (docker run .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
ENGINE_TIMEOUT_S = 120
TOPIC = {"defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "topicFilterType": "SINGLE_TAG"}


@pytest.fixture(autouse=True)
def bridge(host_network: bool) -> None:
    if host_network:
        pytest.skip("the engine has no bridge network")


@contextmanager
def client_of(endpoints: str) -> Iterator[RpcClient]:
    client = RpcClient(endpoints)
    try:
        yield client
    finally:
        client.channel.close()


def put_topic(name_server: str, topic: str) -> None:
    Calls().call(name_server, RequestCode.UPDATE_AND_CREATE_TOPIC, {"topic": topic, **TOPIC})


def delete_topic(name_server: str, topic: str) -> tuple[int, str]:
    """Returns the code and the remark of the response."""
    try:
        response = Calls().call(name_server, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    except CallRefused as refused:
        return refused.code, str(refused)
    return response.code, response.remark


def test_the_host_creates_topics_and_deletes_none_but_the_container_does(container: StartContainer) -> None:
    with (
        container(topics={"orders": 1}, remoting=True, admin_from="loopback") as broker,
        client_of(broker.endpoints) as client,
    ):
        assert client.code("PutTopic", admin.PutTopicRequest(name="sales")) == "OK"
        put_topic(broker.name_server, "invoices")
        status = client.call("DeleteTopic", admin.DeleteTopicRequest(name="orders")).status
        assert "--admin-from loopback," in status.message
        code, remark = delete_topic(broker.name_server, "orders")
        assert (code, "--admin-from loopback," in remark) == (ResponseCode.NO_PERMISSION, True)
        assert "anyone who can reach 0.0.0.0 can" in broker.get_logs()[1].decode()
        assert broker.exec(["rmqpull-broker", "topic", "delete", "orders", "--yes"]).exit_code == 0
        assert client.code("DescribeTopic", admin.DescribeTopicRequest(name="orders")) == "TOPIC_NOT_FOUND"


def test_a_container_of_a_test_is_administrated_from_the_host(container: StartContainer) -> None:
    with (
        container(topics={"orders": 1, "sales": 1}, remoting=True) as broker,
        client_of(broker.endpoints) as client,
    ):
        assert client.code("DeleteTopic", admin.DeleteTopicRequest(name="orders")) == "OK"
        assert delete_topic(broker.name_server, "sales")[0] == ResponseCode.SUCCESS


# --- the commands of the page -----------------------------------------------------------------------------------------


def docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=ENGINE_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr  # logs of a container come on both


@contextmanager
def run_as_printed(command: str, volume: str) -> Iterator[None]:
    """Runs a command of the page in the background, with the image and a volume of this test."""
    _, _, *words = shlex.split(command.replace("broker-data:", f"{volume}:"))
    words[words.index("rmqpull-broker")] = IMAGE
    container_id = docker("run", "--detach", *words).split()[0]
    try:
        wait_until(lambda: "ready endpoints=" in docker("logs", container_id), "ready")
        yield
    finally:
        docker("rm", "--force", "--volumes", container_id)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_of_the_page_serves_a_host_that_creates_topics(command: str, engine: Any, volume: str) -> None:
    engine.volumes.create(volume)
    may_delete = "RMQPULL_BROKER_ADMIN_FROM=all" in command
    with run_as_printed(command, volume):
        if "-p 8081:8081" in command:
            with client_of("127.0.0.1:8081") as client:
                assert client.code("PutTopic", admin.PutTopicRequest(name="sales")) == "OK"
                deleted = client.code("DeleteTopic", admin.DeleteTopicRequest(name="sales"))
                assert deleted == ("OK" if may_delete else "FORBIDDEN")
        else:
            put_topic("127.0.0.1:9876", "sales")
            code, _ = delete_topic("127.0.0.1:9876", "sales")
            assert code == (ResponseCode.SUCCESS if may_delete else ResponseCode.NO_PERMISSION)


def test_the_page_has_commands_for_both_protocols_and_for_administrators() -> None:
    for words in ("-p 8081:8081", "-p 9876:9876", "-e RMQPULL_BROKER_ADMIN_FROM="):
        assert any(words in command for command in COMMANDS), words
