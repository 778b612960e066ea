"""Limits of ``rmqpull.v1`` and of gRPC messages; a client learns them from DescribeServer."""

from __future__ import annotations

PULL_ROWS_MAX = 65_536
PULL_BYTES_MAX = 32 << 20
PUBLISH_BYTES_MAX = 32 << 20
PUBLISH_ROWS_MAX = 65_536
"""One batch is taken in at one go, and nobody else is served meanwhile."""

GRPC_MESSAGE_BYTES_MAX = 64 << 20
"""Above any legal request, so that one too large is refused with a sentence and not with a broken stream."""
