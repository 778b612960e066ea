"""A broker for testcontainers: ``with RocketMQEmulatorContainer(topics={"orders": 8}) as broker: …``."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rmqpull_broker.config_values import parse_admin_from, parse_topic

try:
    from docker.errors import DockerException
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.exceptions import ContainerStartException
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy
except ImportError as error:
    raise ImportError(
        "RocketMQEmulatorContainer needs testcontainers, which is not installed: pip install 'rmqpull[testcontainers]'"
    ) from error

if TYPE_CHECKING:
    from typing_extensions import Self

BROKER_PORT = 8081
REMOTING_PORT = 9876
DATA_DIR = "/data"
READY_TIMEOUT_S = 60

_READY = re.compile(r"^ready endpoints=", re.MULTILINE)
_POLL_INTERVAL_S = 0.1
_LOG_LINES = 20
_VIP_DISTANCE = 2
_TRIES_MAX = 100
_OWN_PORTS = (BROKER_PORT, REMOTING_PORT)


class RocketMQEmulatorContainer(DockerContainer):
    """A broker in a container. After the start it serves at :attr:`endpoints`.

    ``topics`` has NORMAL topics by name, with their number of queues. Messages are lost with the container, unless
    :meth:`with_data_dir` stores them elsewhere. ``remoting`` also serves clients of the remoting protocol, such as
    Java's classic ones, at :attr:`name_server`, and ``remoting_vip`` those of Java up to 4.5.0 too. ``host_network``
    is for a local engine without a bridge network: the broker then listens on a free loopback port of this machine.
    ``admin_from`` is the flag ``--admin-from``: in the container, this machine has an address of Docker's bridge, so
    without the flag a test could not change or delete what exists. Other arguments are those of
    ``DockerContainer``.

    Raises SettingError for an invalid topic or ``admin_from``, and ContainerStartException without a Docker engine.
    """

    def __init__(
        self,
        image: str = "rmqpull-broker",
        topics: Mapping[str, int] | None = None,
        *,
        remoting: bool = False,
        remoting_vip: bool = False,
        host_network: bool = False,
        admin_from: str = "all",
        ready_timeout_s: int = READY_TIMEOUT_S,
        **options: Any,
    ) -> None:
        parse_admin_from(admin_from)
        try:
            super().__init__(image, **options)
        except DockerException as error:
            raise ContainerStartException(
                f"no Docker engine answers: start one, or set DOCKER_HOST to its address ({error})"
            ) from None
        self._admin_from = admin_from
        self._host_network = host_network
        self._remoting = remoting
        self._has_vip = remoting_vip
        self._remoting_port = 0
        self._host_port = 0
        self._arguments: list[str] = []
        self._user: str | None = None
        for name, queues in (topics or {}).items():
            self.with_topic(name, queues)
        ready = LogMessageWaitStrategy(_READY).with_startup_timeout(ready_timeout_s)
        self.waiting_for(ready.with_poll_interval(_POLL_INTERVAL_S))

    def with_topic(self, name: str, queues: int, topic_type: str = "NORMAL") -> Self:
        """Adds a topic. Its type is NORMAL, FIFO, DELAY, TRANSACTION or PRIORITY. Raises SettingError."""
        topic = f"{name}:{queues}:{topic_type}"
        parse_topic(topic)
        return self.with_arguments("--topic", topic)

    def with_arguments(self, *arguments: str) -> Self:
        """Adds arguments of ``rmqpull-broker serve``."""
        self._arguments += arguments
        return self

    def with_data_dir(self, source: str | os.PathLike[str]) -> Self:
        """Stores messages in a volume, which is created if necessary, or in a directory of the host.

        A string without a slash is the name of a volume. With a directory, the broker runs as the directory's owner, so
        that it can write there. Raises OSError when the directory does not exist.
        """
        self.with_arguments("--data-dir", DATA_DIR)
        if isinstance(source, str) and "/" not in source:
            return self.with_volume_mapping(source, DATA_DIR, "rw")
        owner = os.stat(source)
        self._user = f"{owner.st_uid}:{owner.st_gid}"
        return self.with_volume_mapping(os.path.abspath(source), DATA_DIR, "rw")

    @property
    def endpoints(self) -> str:
        """The broker's address, such as ``localhost:49153``. The port may change with a restart."""
        if self._host_network:
            return f"127.0.0.1:{self._host_port}"
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(BROKER_PORT)}"

    @property
    def name_server(self) -> str:
        """The address for clients of the remoting protocol, such as ``127.0.0.1:49154``. Needs ``remoting``."""
        if not self._remoting:
            raise ValueError("the container does not serve the remoting protocol: create it with remoting=True")
        return f"{self._find_host()}:{self._remoting_port}"

    def _find_host(self) -> str:
        return "127.0.0.1" if self._host_network else str(self.get_container_host_ip())

    def start(self) -> Self:
        """Starts the container, and returns when the broker serves. Raises ContainerStartException with its log."""
        try:
            return super().start()
        except (RuntimeError, TimeoutError) as error:
            raise ContainerStartException(
                f"the broker did not become ready: {self._read_last_lines() or error}"
            ) from error

    def _configure(self) -> None:
        listen = f"0.0.0.0:{BROKER_PORT}"
        if self._host_network:
            self._host_port = self._host_port or _free_port()
            listen = f"127.0.0.1:{self._host_port}"
            self.with_env("RMQPULL_ENDPOINTS", listen)
            self._kwargs["network_mode"] = "host"
        else:
            self.with_exposed_ports(BROKER_PORT)
        if self._user:
            self._kwargs["user"] = self._user
        remoting = self._configure_remoting() if self._remoting else []
        self.with_command(["serve", "--listen", listen, "--admin-from", self._admin_from, *remoting, *self._arguments])

    def _configure_remoting(self) -> list[str]:
        """Returns the arguments of the remoting protocol.

        Routes name the port that clients connect to, so it must be known before the start.
        """
        self._remoting_port = self._remoting_port or (_free_port_for_vip() if self._has_vip else _free_port())
        vip = ["--remoting-vip"] if self._has_vip else []
        if self._host_network:
            return ["--remoting", f"127.0.0.1:{self._remoting_port}", *vip]
        self.with_bind_ports(REMOTING_PORT, self._remoting_port)
        if self._has_vip:
            self.with_bind_ports(self._remoting_port - _VIP_DISTANCE, self._remoting_port - _VIP_DISTANCE)
        return ["--remoting", f"0.0.0.0:{REMOTING_PORT}", "--remoting-advertised", self.name_server, *vip]

    def _read_last_lines(self) -> str:
        lines = self.get_logs()[1].decode(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_LINES:])


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _free_port_for_vip() -> int:
    """Returns a free port, such that the port two below is also free and has no other use in the container."""
    for _ in range(_TRIES_MAX):
        port = _free_port()
        with socket.socket() as vip, suppress(OSError):
            vip.bind(("127.0.0.1", port - _VIP_DISTANCE))
            if port - _VIP_DISTANCE not in _OWN_PORTS:
                return port
    raise ContainerStartException("remoting_vip needs a free port with a free one two below it, and none was found")
