"""The address of this machine, as it is a part of ids."""

from __future__ import annotations

import socket


def find_own_host(name_servers: str) -> str:
    """Returns the address from which this machine reaches a name server, for ids. Nothing is sent."""
    host, _, port = name_servers.replace(",", ";").split(";")[0].strip().rpartition(":")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, int(port)))
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return "127.0.0.1"
