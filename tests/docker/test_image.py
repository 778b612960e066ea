"""The broker's image, run by a real Docker engine."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from testcontainers.core.exceptions import ContainerStartException

from processes.apache.calls import Calls
from rmqpull_broker.config_values import SettingError
from rmqpull_broker.testcontainers import RocketMQEmulatorContainer
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.routes import TopicRoute
from tests.harness.containers import ContainerClient, StartContainer

Connect = Callable[[str], "ContainerClient"]

IMAGE = "rmqpull-broker:test"
SOMEBODY = 23_456  # a user that neither the image nor this machine knows
HEALTH_TIMEOUT_S = 60
QUICK_CHECKS = {"interval": 500_000_000}  # nanoseconds; the check itself is the image's
BROKEN_CHECKS = {**QUICK_CHECKS, "retries": 1, "start_period": 1_000_000}


def becomes(container: RocketMQEmulatorContainer, wanted: str) -> bool:
    """Waits until the engine judges a container so. A verdict may change: checks go on."""
    give_up = time.monotonic() + HEALTH_TIMEOUT_S
    while time.monotonic() < give_up:
        container.reload()
        if container.get_wrapped_container().attrs["State"]["Health"]["Status"] == wanted:
            return True
        time.sleep(0.2)
    return False


def test_it_serves_topics_and_returns_sent_messages(container: StartContainer, connect: Connect) -> None:
    with container(topics={"orders": 8}).with_topic("trades", 2, "FIFO") as broker:
        client = connect(broker.endpoints)
        assert [len(client.queues(topic)) for topic in ("orders", "trades")] == [8, 2]
        for body in (b"1", b"2", b"3"):
            client.send("orders", body)
        assert sorted(client.bodies("orders")) == [b"1", b"2", b"3"]


def test_a_route_has_the_address_that_the_client_used(container: StartContainer, connect: Connect) -> None:
    with container(topics={"orders": 1}) as broker:
        (queue,) = connect(broker.endpoints).queues("orders")
        (address,) = queue.broker.endpoints.addresses
        assert f"{address.host}:{address.port}" == broker.endpoints


def test_clients_of_the_remoting_protocol_reach_it_by_its_routes(container: StartContainer) -> None:
    with container(topics={"orders": 1}, remoting=True) as broker:
        calls = Calls()
        body = calls.call(broker.name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}).body
        (data,) = TopicRoute.decode(body).broker_datas
        bounds = calls.call(data.broker_addrs[0], RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": 0})
        assert bounds.fields["offset"] == "0"


def test_it_serves_on_the_network_of_its_host(engine: Any, connect: Connect) -> None:
    if engine.info()["Name"] != socket.gethostname():
        pytest.skip("the engine is not of this machine")
    with RocketMQEmulatorContainer(IMAGE, {"orders": 1}, host_network=True, healthcheck=QUICK_CHECKS) as broker:
        assert broker.endpoints.startswith("127.0.0.1:")
        assert connect(broker.endpoints).send("orders", b"1") == 0
        assert becomes(broker, "healthy")


def test_it_runs_as_no_root(container: StartContainer) -> None:
    with container() as broker:
        assert broker.exec("id -u").output.decode().strip() == "10001"
        assert broker.exec("touch /data/mine").exit_code == 0
        assert broker.exec("touch /opt/rmqpull/mine").exit_code != 0


def test_it_holds_no_spark_and_no_pip(container: StartContainer) -> None:
    with container() as broker:
        assert broker.exec(["python", "-c", "import pyarrow, grpc"]).exit_code == 0
        for absent in ("pyspark", "pip"):
            found = broker.exec(["python", "-c", f"import {absent}"])
            assert (found.exit_code, f"No module named '{absent}'" in found.output.decode()) == (1, True)


def test_the_engine_finds_it_healthy(container: StartContainer) -> None:
    with container(healthcheck=QUICK_CHECKS) as broker:
        assert becomes(broker, "healthy")


def test_the_engine_notices_a_broker_that_does_not_respond(container: StartContainer) -> None:
    with container(healthcheck=BROKEN_CHECKS) as broker:
        broker.get_wrapped_container().kill("SIGSTOP")
        assert becomes(broker, "unhealthy")


def test_a_volume_keeps_messages_for_the_next_container(
    container: StartContainer, connect: Connect, volume: str
) -> None:
    with container(topics={"orders": 1}).with_data_dir(volume) as broker:
        assert connect(broker.endpoints).send("orders", b"kept") == 0
    with container().with_data_dir(volume) as broker:
        client = connect(broker.endpoints)
        assert client.bodies("orders") == [b"kept"]
        assert client.send("orders", b"next") == 1


def test_a_restart_keeps_messages(container: StartContainer, connect: Connect, volume: str) -> None:
    with container(topics={"orders": 1}).with_data_dir(volume) as broker:
        assert connect(broker.endpoints).send("orders", b"kept") == 0
        broker.get_wrapped_container().restart()
        assert connect(broker.endpoints).bodies("orders") == [b"kept"]


def test_a_directory_of_the_host_keeps_its_owner(container: StartContainer, connect: Connect, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(tmp_path, SOMEBODY, SOMEBODY)
    with container(topics={"orders": 1}).with_data_dir(tmp_path) as broker:
        assert connect(broker.endpoints).send("orders", b"kept") == 0
    kept = list(tmp_path.rglob("*"))
    assert {path.stat().st_uid for path in kept} == {tmp_path.stat().st_uid}


def test_without_arguments_the_image_serves_all_interfaces_and_keeps_its_data(engine: Any) -> None:
    run = engine.containers.run(IMAGE, detach=True, network_mode="none")
    try:
        ready = next(run.logs(stream=True, stderr=False))
        assert ready.startswith(b"ready endpoints=0.0.0.0:8081 ")
        assert run.exec_run("ls /data").output.split()
    finally:
        run.remove(force=True, v=True)


def test_the_image_can_make_a_certificate(container: StartContainer) -> None:
    with container().with_arguments("--tls-listen", "0.0.0.0:0") as broker:
        assert b" tls=0.0.0.0:" in broker.get_wrapped_container().logs(stderr=False)


def test_a_topic_that_the_broker_would_refuse_is_refused_at_once(container: StartContainer) -> None:
    with pytest.raises(SettingError, match="no spaces"):
        container(topics={"no spaces": 1})


def test_a_broker_that_refuses_to_start_says_why(container: StartContainer) -> None:
    broker = container().with_arguments("--no-such-flag")
    with pytest.raises(ContainerStartException, match=r"No such option.*--no-such-flag"), broker:
        pass
