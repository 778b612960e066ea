"""Addresses as texts, and the error of one that the broker cannot listen on."""

from __future__ import annotations


class PortUnavailable(Exception):
    """The broker cannot listen on an address. The text names the address and the reason; ``setting`` is its flag."""

    def __init__(self, message: str, setting: str = "--listen") -> None:
        super().__init__(message)
        self.setting = setting


def join_address(host: str, port: int) -> str:
    """Returns ``host:port``, with an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
