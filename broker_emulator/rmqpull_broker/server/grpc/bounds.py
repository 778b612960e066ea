"""The largest request of each RPC, checked on its bytes, because protobuf makes an object of each entry."""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_broker.server.wire.limits import GRPC_MESSAGE_BYTES_MAX

REQUEST_BYTES_MAX = 262_144
"""The requests of all RPCs that are not named here. The longest filter, 32,768 characters, has half of it in UTF-8."""
TELEMETRY_BYTES_MAX = 1 << 20
"""The settings of a client with its subscriptions, and commands to clients and their answers."""
ENTRIES_BYTES_MAX = 2 << 20
"""Acknowledgements, queues to lock, and names to look up: 10,000 acknowledgements have 2 MB."""
QUEUES_BYTES_MAX = 16 << 20
"""Lists with an entry for each queue that a query reads, or each part that it has written."""

_BOUNDS: Mapping[str, int] = {
    # Messages: maxMessageSize and the limits of a batch follow.
    "SendMessage": GRPC_MESSAGE_BYTES_MAX,
    "PublishColumns": GRPC_MESSAGE_BYTES_MAX,
    "StageColumns": GRPC_MESSAGE_BYTES_MAX,
    "Telemetry": TELEMETRY_BYTES_MAX,
    "AckMessage": ENTRIES_BYTES_MAX,
    "LockQueues": ENTRIES_BYTES_MAX,
    "UnlockQueues": ENTRIES_BYTES_MAX,
    "QueryLag": ENTRIES_BYTES_MAX,
    "ListInFlight": ENTRIES_BYTES_MAX,
    "PullColumns": QUEUES_BYTES_MAX,
    "QueryBounds": QUEUES_BYTES_MAX,
    "CutRanges": QUEUES_BYTES_MAX,
    "CommitOffsets": QUEUES_BYTES_MAX,
    "ReportRowsLost": QUEUES_BYTES_MAX,
    "CommitStages": QUEUES_BYTES_MAX,
    "KeepStages": QUEUES_BYTES_MAX,
}


def find_request_bytes_max(name: str) -> int:
    """Returns the largest request of an RPC, in bytes."""
    return _BOUNDS.get(name, REQUEST_BYTES_MAX)
