"""Formats and parses addresses, assigns ports to brokers, and has the error for an unavailable port."""

from __future__ import annotations

from collections.abc import Sequence

VIP_DISTANCE = 2
"""How far the port of the VIP channel is below the one in routes (rules 4.12)."""
WILDCARDS = ("0.0.0.0", "::", "")
"""The hosts that stand for all addresses of a machine."""


class PortUnavailable(Exception):
    """The broker cannot listen on an address. The text names the address and the reason; ``setting`` is its flag."""

    def __init__(self, message: str, setting: str = "--listen") -> None:
        super().__init__(message)
        self.setting = setting


def join_address(host: str, port: int) -> str:
    """Returns ``host:port``, with an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def find_host(address: str) -> str:
    """Returns the host of ``host:port``, without brackets; an empty text for one without a port."""
    return address.rpartition(":")[0].strip("[]")


def find_address(addresses: Sequence[tuple[str, int]], index: int) -> tuple[str, int]:
    """Returns where the logical broker of this index listens for clients of the remoting protocol.

    ``addresses`` has one for each broker, or only that of the first. Then the others have the following ports, or free
    ones (0) if the first has port 0.
    """
    if index < len(addresses):
        return addresses[index]
    host, port = addresses[0]
    return host, port + index if port else 0
