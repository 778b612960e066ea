"""Every limit that a user can meet: whose it is, and what happens beyond it. The values are those of the constants."""

from __future__ import annotations

from scripts.limits_of_calls import LIMITS_OF_CALLS
from scripts.limits_of_server import LIMITS_OF_SERVER

LIMITS = {**LIMITS_OF_CALLS, **LIMITS_OF_SERVER}

INTERNAL = {
    "core.limits:RECONSUME_TIMES_MAX": "what 32 bits hold; a message that was tried as often is counted no further",
    "core.sending.delays:DELIVERIES_MAX": "the share of one command; the next one delivers the rest at once",
    "core.sending.transactions:CHECKS_MAX": "the share of one command; the next one checks the rest at once",
    "core.state.retention:PUT_AGAIN_MAX": "the share of one command; the next one puts the rest again at once",
    "core.state.retention:PUT_AGAIN_BYTES_MAX": "the share of one command; the next one puts the rest again at once",
    "core.filters.message_filter:COMPILED_EXPRESSIONS_MAX": "a cache; an evicted expression is compiled again",
    "core.filters.java_values:INTEGER_MAX": "Java's Integer",
    "core.filters.java_values:LONG_MAX": "Java's Long",
    "core.sending.queue_selection:TURNS_MAX": "topics whose turn is known; another one begins at its first queue again",
    "server.grpc.connections:PENDING_CALLS_MAX": "how gRPC lets a burst of calls in; none of them is refused",
    "store.queues.queue:TAIL_ROWS_MAX": "how messages are held in memory; nobody sees its borders",
    "store.queues.chunks:CHUNK_ROWS_MAX": "how messages are held in memory; nobody sees its borders",
    "store.queues.chunks:CHUNK_BYTES_MAX": "how messages are held in memory; nobody sees its borders",
    "store.log.replaying:ROWS_TOGETHER_MAX": "how a start takes in rows; nobody sees its borders",
    "store.queues.queues:SLICES_PER_BATCH_MAX": "how messages are held in memory; nobody sees its borders",
    "store.queues.queue_files:OPEN_FILES_MAX": "a cache; a file that fell out of it is opened again",
}
"""Constants that limit nothing a user can meet, each with the reason."""
