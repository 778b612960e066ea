"""The releases of Apache RocketMQ that are run here, and their jars."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from processes.maven import Artifact, fetch_jars

_GROUP = "org.apache.rocketmq"


@dataclass(frozen=True)
class Release:
    """A release: version of name server and broker, and version of clients and tools."""

    name: str
    server: str
    client: str

    @property
    def has_acl_file(self) -> bool:
        """Whether brokers read accounts from `plain_acl.yml`: ACL 1.0, which 5.3 has replaced."""
        return self.server.startswith(("4.", "5.1."))

    def fetch_server_jars(self) -> list[Path]:
        """Returns the jars of name server and broker. Raises SoftwareMissing."""
        return self._fetch(self.server, "namesrv", "broker")

    def fetch_proxy_jars(self) -> list[Path]:
        """Returns the jars of the proxy, which 4.x does not have, and Maven not for 5.1.4. Raises SoftwareMissing."""
        return self._fetch(self.server, "proxy")

    def fetch_client_jars(self) -> list[Path]:
        """Returns the jars of producer, consumers, `mqadmin` and signing. Raises SoftwareMissing."""
        signing = ("acl",) if self.has_acl_file else ()  # it was removed in 5.3.3
        return self._fetch(self.client, "client", "tools", *signing)

    @staticmethod
    def _fetch(version: str, *modules: str) -> list[Path]:
        return fetch_jars([Artifact(_GROUP, f"rocketmq-{module}", version, is_alone=False) for module in modules])


RELEASE_4 = Release("4.9", server="4.9.7", client="4.9.8")
"""Maven has the servers of 4.9 up to 4.9.7, and their clients up to 4.9.8."""
RELEASE_5 = Release("5.3", server="5.3.3", client="5.3.3")
RELEASE_5_1 = Release("5.1", server="5.1.4", client="5.1.4")
RELEASE_5_5 = Release("5.5", server="5.5.0", client="5.5.0")
RELEASES = {release.name: release for release in (RELEASE_4, RELEASE_5_1, RELEASE_5, RELEASE_5_5)}
CLIENT_RELEASES = (RELEASE_4.name, RELEASE_5.name)
"""The releases whose Java clients run the scenarios of `tests/clients`."""
