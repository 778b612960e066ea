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
        return self.server.startswith(("4.", "5.0.", "5.1.", "5.2."))

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
RELEASE_5_1 = Release("5.1", server="5.1.4", client="5.1.4")
RELEASE_5_3 = Release("5.3", server="5.3.3", client="5.3.3")
RELEASE_5_5 = Release("5.5", server="5.5.0", client="5.5.0")
RELEASE_5 = RELEASE_5_5
"""The release of 5.x that all tests run against. The newest one, 5.5.1, Maven does not have whole."""
RELEASES = {release.name: release for release in (RELEASE_4, RELEASE_5_1, RELEASE_5_3, RELEASE_5_5)}
CLIENT_RELEASES = (RELEASE_4.name, RELEASE_5.name)
"""The releases whose Java clients run the scenarios of `tests/clients`."""

_WHOLE = (
    *("4.9.0", "4.9.1", "4.9.2", "4.9.3", "4.9.4", "4.9.5", "4.9.7"),
    *("5.0.0", "5.1.0", "5.1.1", "5.1.4", "5.2.0", "5.3.3", "5.4.0", "5.5.0"),
)
EACH_RELEASE = tuple(Release(version, server=version, client=version) for version in _WHOLE)
"""Each release from 4.9.0 on of which Maven has the servers and what they need. `make test-releases` starts each."""
_NO_SERVERS = "Maven has its clients, and neither name server nor broker"
_NO_NAME_SERVER = "Maven has its broker, and no name server"
LEFT_OUT = {
    **dict.fromkeys(("4.9.6", "4.9.8", "5.1.2"), _NO_SERVERS),
    **dict.fromkeys(("5.1.3", "5.3.0", "5.3.1", "5.3.2", "5.5.1"), _NO_NAME_SERVER),
    "5.3.4": "Maven has its name server and its broker, and not the modules that both need, such as `common`",
}
"""Why the other releases up to 5.5.1 are not in :data:`EACH_RELEASE`."""
