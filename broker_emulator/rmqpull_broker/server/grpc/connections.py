"""What gRPC is told about connections: their limits, and how dead ones are found."""

from __future__ import annotations

from rmqpull_broker.core.pulling.parking import PARKED_PULLS_MAX
from rmqpull_broker.server.wire.limits import GRPC_MESSAGE_BYTES_MAX

STREAMS_PER_CONNECTION_MAX = 20_000
"""Calls at a time on one connection: a client that parks ten thousand pulls is welcome; further ones wait in it."""

CALLS_MAX = PARKED_PULLS_MAX + 20_000
"""Calls at a time over all connections: whoever is parked, and room for those who are not. Others are told
RESOURCE_EXHAUSTED by gRPC."""

# A parked pull takes 27 kB (bench/broker_costs.py). 23 are gRPC's: 9 for the call itself, the rest for operations
# and coroutines. Of the options below, the limit of received messages accounts for 1.7 and that of idle connections
# for 0.4, and both are worth it; compression, look-ahead and the number of malloc arenas make no difference.

PENDING_CALLS_MAX = 20_000

OPTIONS = (
    # Two brokers on one port would share its connections by chance; the second must fail instead.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", GRPC_MESSAGE_BYTES_MAX),
    # Answers are bounded by PULL_BYTES_MAX and by what ids, hosts and traces may weigh beside.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_concurrent_streams", STREAMS_PER_CONNECTION_MAX),
    # Calls that came in and were not looked at yet. Beyond its own limit of 1,000 gRPC begins to cancel some by chance,
    # which a burst of pulls after a restart would feel.
    ("grpc.server.max_pending_requests", PENDING_CALLS_MAX),
    ("grpc.server.max_pending_requests_hard_limit", PENDING_CALLS_MAX),
    # A peer that vanished without a word is found within 80 s, and its parked pulls and streams cost nothing more.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Silent streams are normal here: a parked pull says nothing for minutes, Telemetry nothing for hours.
    ("grpc.http2.max_pings_without_data", 0),
    # Clients may ping as often as every 10 s, also between calls: gRPC's own limit, 5 min, would cut them off.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # A connection without a call for half an hour is forgotten: an official client says something every 10 s. There is
    # no limit to a connection's age, since it would cut off streams that are in use.
    ("grpc.max_connection_idle_ms", 30 * 60_000),
)
