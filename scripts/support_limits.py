"""Every limit that users can meet, with its origin and what happens beyond it. The values come from the constants."""

from __future__ import annotations

from scripts.limits_of_calls import LIMITS_OF_CALLS
from scripts.limits_of_server import LIMITS_OF_SERVER

LIMITS = {**LIMITS_OF_CALLS, **LIMITS_OF_SERVER}

INTERNAL = {
    "core.limits:RECONSUME_TIMES_MAX": "the largest 32-bit integer; the count stops there",
    "core.sending.delays:DELIVERIES_MAX": "limits one command; the next one delivers the rest at once",
    "core.sending.transactions:CHECKS_MAX": "limits one command; the next one checks the rest at once",
    "core.state.retention:PUT_AGAIN_MAX": "limits one command; the next one stores the rest again at once",
    "core.state.retention:PUT_AGAIN_BYTES_MAX": "limits one command; the next one stores the rest again at once",
    "core.filters.message_filter:COMPILED_EXPRESSIONS_MAX": "a cache; an evicted expression is compiled again",
    "core.filters.java_values:INTEGER_MAX": "Java's Integer",
    "core.filters.java_values:LONG_MAX": "Java's Long",
    "core.sending.queue_selection:TURNS_MAX": "topics with a remembered next queue; others start at their first queue",
    "server.grpc.connections:PENDING_CALLS_MAX": "how gRPC accepts a burst of calls; it refuses none",
    "store.queues.consume_queue:TAIL_ROWS_MAX": "how messages are stored in memory; no user sees it",
    "store.queues.chunks:CHUNK_ROWS_MAX": "how messages are stored in memory; no user sees it",
    "store.queues.chunks:CHUNK_BYTES_MAX": "how messages are stored in memory; no user sees it",
    "store.log.recovery:ROWS_TOGETHER_MAX": "how a start loads rows; no user sees it",
    "store.queues.consume_queues:SLICES_PER_BATCH_MAX": "how messages are stored in memory; no user sees it",
    "store.queues.queue_files:OPEN_FILES_MAX": "a cache; an evicted file is opened again",
}
"""Constants that no user can meet, with the reasons."""
