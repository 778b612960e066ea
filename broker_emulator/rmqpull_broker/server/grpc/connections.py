"""The options of gRPC connections, and listening on an address."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import grpc

from rmqpull_broker.core.pulling.parking import PARKED_PULLS_MAX
from rmqpull_broker.core.shares import find_most
from rmqpull_broker.server.addresses import PortUnavailable, join_address
from rmqpull_broker.server.limits import GRPC_MESSAGE_BYTES_MAX

if TYPE_CHECKING:
    from rmqpull_broker.server.grpc.tls import TlsAddress

STREAMS_PER_CONNECTION_MAX = 20_000
"""Concurrent calls on one connection: enough for a client that parks ten thousand pulls. The client queues others."""

CALLS_MAX = PARKED_PULLS_MAX + 10_000
"""Concurrent calls of a lone connection: all parked pulls and some more. See :mod:`rmqpull_broker.core.shares`."""
CALLS_OF_ALL_MAX = find_most(CALLS_MAX) + 10_000
"""Concurrent calls on all connections, including those that are about to be refused. gRPC refuses more."""

# A parked pull takes 27 kB (bench/broker_costs.py). 23 are gRPC's: 9 for the call itself, the rest for operations
# and coroutines. Of the options below, the limit of received messages accounts for 1.7 and that of idle connections
# for 0.4, and both are worth it; compression, look-ahead and the number of malloc arenas make no difference.

PENDING_CALLS_MAX = 20_000

HANDSHAKE_MS_MAX = 10_000
"""Milliseconds for the TLS handshake. gRPC waits for each connection separately, so silent ones do not block others;
but each is an open file."""

OPTIONS = (
    # With SO_REUSEPORT two brokers on one port would share its connections by chance; the second one must fail.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", GRPC_MESSAGE_BYTES_MAX),
    # PULL_BYTES_MAX limits responses, plus the size of ids, hosts and traces.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_concurrent_streams", STREAMS_PER_CONNECTION_MAX),
    # Calls that have arrived but have not started. Above its default of 1,000 gRPC cancels some at random, which a
    # burst of pulls after a restart would reach.
    ("grpc.server.max_pending_requests", PENDING_CALLS_MAX),
    ("grpc.server.max_pending_requests_hard_limit", PENDING_CALLS_MAX),
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS_MAX),
    # Detects a peer that vanished within 80 s, and frees its parked pulls and streams.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Silent streams are normal here: a parked pull is silent for minutes, Telemetry for hours.
    ("grpc.http2.max_pings_without_data", 0),
    # Clients may ping every 10 s, also between calls. gRPC's default of 5 min would disconnect them.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # Closes a connection without calls for half an hour; an official client makes one every 10 s. The age of a
    # connection is not limited, because that would cut off streams in use.
    ("grpc.max_connection_idle_ms", 30 * 60_000),
)

_REASONS = {errno.EADDRINUSE: "the port is in use", errno.EADDRNOTAVAIL: "the address is not this machine's"}


def listen(server: grpc.aio.Server, host: str, port: int) -> int:
    """Binds a gRPC server. Returns the port, a free one when ``port`` is 0. Raises PortUnavailable."""
    return _bind(server.add_insecure_port, host, port)


def listen_with_tls(server: grpc.aio.Server, tls: TlsAddress) -> int:
    """Binds a gRPC server to a port for TLS. Returns the port, a free one for port 0. Raises PortUnavailable."""
    credentials = tls.make_credentials()
    try:
        return _bind(lambda address: server.add_secure_port(address, credentials), tls.host, tls.port)
    except PortUnavailable as error:
        raise PortUnavailable(str(error), "--tls-listen") from None


def _bind(add_port: Callable[[str], int], host: str, port: int) -> int:
    address = join_address(host, port)
    _check_port(address, host, port)
    try:
        return add_port(address)
    except RuntimeError:
        raise PortUnavailable(f"cannot listen on {address}: gRPC refused it") from None


def _check_port(address: str, host: str, port: int) -> None:
    """Raises PortUnavailable unless gRPC can bind every address of ``host`` that this machine has.

    gRPC is satisfied with one of several: a second broker on ``localhost`` would get ``::1`` while the first one has
    ``127.0.0.1``, and clients would reach one of them by chance. gRPC also does not report the reason of a failure.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise PortUnavailable(f"cannot listen on {address}: the host's name is unknown") from None
    errors = [error for family, _, _, _, target in found if (error := _try_to_bind(family, target)) is not None]
    fatal = [error for error in errors if error.errno in (errno.EADDRINUSE, errno.EACCES)]
    if len(errors) == len(found) or fatal:
        error = (fatal or errors)[0]
        raise PortUnavailable(f"cannot listen on {address}: {_REASONS.get(error.errno or 0, error.strerror)}")


def _try_to_bind(family: int, target: Any) -> OSError | None:
    """Returns the error of an attempt to bind an address."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gRPC does
            probe.bind(target)
    except OSError as error:
        return error
    return None
