"""Listening on an address, or saying why not."""

from __future__ import annotations

import errno
import socket
from typing import Any

import grpc

_REASONS = {errno.EADDRINUSE: "the port is in use", errno.EADDRNOTAVAIL: "the address is not this machine's"}


class PortUnavailable(Exception):
    """The address cannot be listened on; the text names it and says why."""


def listen(server: grpc.aio.Server, host: str, port: int) -> int:
    """Binds a gRPC server and returns the port, which is a free one when ``port`` is 0. Raises PortUnavailable."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    _check_port(address, host, port)
    try:
        return server.add_insecure_port(address)
    except RuntimeError:
        raise PortUnavailable(f"cannot listen on {address}: gRPC refused it") from None


def _check_port(address: str, host: str, port: int) -> None:
    """Raises PortUnavailable unless gRPC will get every address of ``host`` that this machine has.

    gRPC is content with one of several: a second broker on ``localhost`` would get ``::1`` beside the first one's
    ``127.0.0.1``, and clients would reach one or the other by chance. gRPC also does not say why it was refused.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise PortUnavailable(f"cannot listen on {address}: the host's name is not known") from None
    refusals = [error for family, _, _, _, place in found if (error := _refusal_to_bind(family, place)) is not None]
    fatal = [error for error in refusals if error.errno in (errno.EADDRINUSE, errno.EACCES)]
    if len(refusals) == len(found) or fatal:
        error = (fatal or refusals)[0]
        raise PortUnavailable(f"cannot listen on {address}: {_REASONS.get(error.errno or 0, error.strerror)}")


def _refusal_to_bind(family: int, place: Any) -> OSError | None:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gRPC does
            probe.bind(place)
    except OSError as error:
        return error
    return None
