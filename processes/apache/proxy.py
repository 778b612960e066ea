"""Apache's proxy: the server of `apache.rocketmq.v2`, in front of a cluster of 5.x."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from processes.apache.servers import READY_WITHIN_S, Server
from processes.children import LOOPBACK

# Only what does not change the answers. By default a route has port 8081, whatever port the client asked.
_SETTINGS = {
    "proxyMode": "CLUSTER",
    "rocketMQClusterName": "DefaultCluster",
    "proxyClusterName": "DefaultCluster",
    "useEndpointPortFromRequest": True,
    # The host in routes for clients of remoting. By default, it is an address of the machine in its network.
    "remotingAccessAddr": LOOPBACK,
    # One client of the brokers and few threads: by default, each grows with the number of processors.
    "rocketmqMQClientNum": 1,
    "enablePrintJstack": False,
    # How often it registers at brokers as the producer of half messages. By default, every 20 s: a broker that checks
    # each second has given up a half message by then.
    "transactionHeartbeatPeriodSecond": 1,
}


@dataclass(kw_only=True)
class Proxy(Server):
    """Apache's proxy in cluster mode. It serves gRPC at its address, and clients of remoting at ``remoting_address``.

    ``settings`` are those of `rmq-proxy.json`, by Apache's names. Apache gives no way to listen on the loopback
    interface only.
    """

    name_servers: str
    allows_tls: bool = True  # clients of gRPC speak TLS by default
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def remoting_address(self) -> str:
        """The address that clients of the remoting protocol use as that of a name server."""
        return f"{LOOPBACK}:{self.port + 1}"

    @property
    def _name(self) -> str:
        return "proxy"

    @property
    def _main_class(self) -> str:
        return "org.apache.rocketmq.proxy.ProxyStartup"

    def _fetch_jars(self) -> list[Path]:
        return self.release.fetch_proxy_jars()

    def _write_arguments(self) -> list[str]:
        (self.folder / "conf").mkdir(exist_ok=True)
        ports = {"grpcServerPort": self.port, "remotingListenPort": self.port + 1}
        file = self.folder / "conf" / "rmq-proxy.json"
        settings = {**_SETTINGS, **ports, "namesrvAddr": self.name_servers, **self.settings}
        file.write_text(json.dumps(settings, indent=2), encoding="utf-8")
        return ["-pc", str(file)]

    def _wait_until_ready(self) -> None:
        # It listens for gRPC first.
        self._started().wait_for_port(self.port + 1, READY_WITHIN_S)
