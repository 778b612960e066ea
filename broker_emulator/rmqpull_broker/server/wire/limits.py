"""Limits of what clients may send and hold; those of ``rmqpull.v1`` are also told by DescribeServer."""

from __future__ import annotations

PULL_ROWS_MAX = 65_536
PULL_BYTES_MAX = 32 << 20
PUBLISH_BYTES_MAX = 32 << 20
PUBLISH_ROWS_MAX = 65_536
PUBLISH_TOPICS_MAX = 1_000
"""One batch is taken in at one go, and nobody else is served meanwhile."""

GRPC_MESSAGE_BYTES_MAX = 64 << 20
"""Above any legal request, so that one too large is refused with a sentence and not with a broken stream."""

CLIENTS_MAX = 10_000
TELEMETRY_STREAMS_MAX = 10_000
"""Clients that sent their settings, and streams that are open; a client may open several."""
SUBSCRIPTIONS_MAX = 1_000
"""Topics that one client may name in its settings, as producer or consumer."""
SETTINGS_BYTES_MAX = 262_144
CLIENT_PROPERTIES_MAX = 32
