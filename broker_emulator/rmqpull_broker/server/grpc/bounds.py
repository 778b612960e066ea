"""The largest request of each RPC, checked before it is parsed, because protobuf makes an object of each entry."""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_broker.server.grpc.wire_fields import Contents
from rmqpull_broker.server.limits import GRPC_MESSAGE_BYTES_MAX

REQUEST_BYTES_MAX = 262_144
"""For all RPCs that are not named here. The longest filter, 32,768 characters, takes up to half of this in UTF-8."""
TELEMETRY_BYTES_MAX = 1 << 20
"""For a client's settings with its subscriptions, and for answers to commands."""
ENTRIES_BYTES_MAX = 2 << 20
"""For acknowledgements, queues to lock, stages, and names to look up: 4,096 acknowledgements take 1 MB."""
ENTRIES_MAX = 20_000
"""Fields of such a request above ``REQUEST_BYTES_MAX``."""
QUEUES_BYTES_MAX = 16 << 20
"""For lists with an entry for each queue that a query reads."""
QUEUES_MAX = 100_000
"""Fields of such a request above ``REQUEST_BYTES_MAX``."""

_CONTENTS: Mapping[str, Contents] = {
    # Messages. maxMessageSize and the batch limits are checked later; bodies and Arrow batches are not parsed.
    "SendMessage": {1: {4: None}},
    "PublishColumns": {2: None},
    "StageColumns": {5: None},
}
_BOUNDS: Mapping[str, int] = {
    **dict.fromkeys(_CONTENTS, GRPC_MESSAGE_BYTES_MAX),
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
    "CommitStages": ENTRIES_BYTES_MAX,
}


def find_request_bytes_max(name: str) -> int:
    """Returns the largest request of an RPC, in bytes."""
    return _BOUNDS.get(name, REQUEST_BYTES_MAX)


def find_fields_max(name: str) -> int | None:
    """Returns how many fields a large request of an RPC has at most; None if it has no list, or has messages."""
    return {ENTRIES_BYTES_MAX: ENTRIES_MAX, QUEUES_BYTES_MAX: QUEUES_MAX}.get(find_request_bytes_max(name))


def find_contents(name: str) -> Contents | None:
    """Returns where the bodies or the batch are in the requests of an RPC; None if it has no messages."""
    return _CONTENTS.get(name)


def find_batch_field(name: str) -> int | None:
    """Returns the number of the field with the batch in the requests of an RPC; None if they have no batch."""
    return next((number for number, nested in _CONTENTS.get(name, {}).items() if nested is None), None)
