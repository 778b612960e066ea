"""The arguments that a container gives its broker, and its errors when it cannot start."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from testcontainers.core.exceptions import ContainerStartException

from rmqpull_broker.config_values import SettingError
from rmqpull_broker.testcontainers import RocketMQEmulatorContainer

SCRIPT = """
import sys
from typing import Any
sys.modules["testcontainers"] = None  # as if it were not installed
import rmqpull_broker.testcontainers
"""


@pytest.mark.processes
def test_without_testcontainers_the_extra_is_named() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: RocketMQEmulatorContainer needs testcontainers, which is not installed: "
        "pip install 'rmqpull[testcontainers]'"
    )


def test_the_error_without_an_engine_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(ContainerStartException, match="no Docker engine answers: start one, or set DOCKER_HOST"):
        RocketMQEmulatorContainer()


class NoEngine:
    """Stands for the client of an engine that is never asked for anything."""


@pytest.mark.parametrize("host_network", [False, True])
@pytest.mark.parametrize("vip", [False, True])
def test_the_vip_channel_has_the_port_that_old_clients_make(
    monkeypatch: pytest.MonkeyPatch, host_network: bool, vip: bool
) -> None:
    monkeypatch.setattr("testcontainers.core.container.DockerClient", lambda **options: NoEngine())
    monkeypatch.setattr(RocketMQEmulatorContainer, "get_container_host_ip", lambda self: "localhost")
    container = RocketMQEmulatorContainer(remoting=True, remoting_vip=vip, host_network=host_network)
    container._configure()
    port = int(container.name_server.rpartition(":")[2])
    assert isinstance(container._command, list)
    assert ("--remoting-vip" in container._command) is vip
    published = {} if host_network else {"8081": None, "9876": port} | ({str(port - 2): port - 2} if vip else {})
    assert container.ports == published


@pytest.mark.parametrize(("given", "told"), [({}, "all"), ({"admin_from": "10.0.0.0/8"}, "10.0.0.0/8")])
def test_a_test_administrates_its_container_from_the_host(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], told: str
) -> None:
    monkeypatch.setattr("testcontainers.core.container.DockerClient", lambda **options: NoEngine())
    container = RocketMQEmulatorContainer(**given)
    container._configure()
    assert isinstance(container._command, list)
    assert container._command[container._command.index("--admin-from") + 1] == told


def test_a_container_is_not_made_for_peers_that_cannot_be_read() -> None:
    with pytest.raises(SettingError, match="'everybody' is not an IP address or network"):
        RocketMQEmulatorContainer(admin_from="everybody")
