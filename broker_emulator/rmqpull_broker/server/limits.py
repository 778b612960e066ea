"""Limits of requests and of clients. DescribeServer returns those of ``rmqpull.v1``."""

from __future__ import annotations

PULL_ROWS_MAX = 65_536
PULL_BYTES_MAX = 32 << 20
PUBLISH_BYTES_MAX = 32 << 20
PUBLISH_ROWS_MAX = 65_536
PUBLISH_BATCHES_MAX = 1_000
PUBLISH_TOPICS_MAX = 1_000
"""The broker handles a batch in one step, while other calls wait."""

GRPC_MESSAGE_BYTES_MAX = 64 << 20
"""Above all other limits, so that too large a request gets a status instead of a broken stream."""
LIST_RESPONSE_BYTES_MAX = 32 << 20
"""The largest response with a list for an administrator. Copying it takes most of a turn of the event loop."""

CLIENTS_MAX = 10_000
TELEMETRY_STREAMS_MAX = 10_000
"""Registered clients, and open streams; a client may open several."""
SUBSCRIPTIONS_MAX = 1_000
"""Topics in the settings or the heartbeat of one client, as a producer or consumer."""
HEARTBEAT_GROUPS_MAX = 1_000
"""Groups of producers and consumers in one heartbeat of remoting. Few, because it may create each consumer group."""
HEARTBEAT_TOPICS_MAX = 5_000
"""Subscriptions in one heartbeat of the remoting protocol."""
BATCH_ACKS_MAX = 4_096
"""Acknowledgements in one request."""
CLIENT_SETTINGS_BYTES_MAX = 262_144
CLIENT_PROPERTIES_MAX = 32
