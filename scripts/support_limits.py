"""Every limit that a user can meet: whose it is, and what happens beyond it. The values are those of the constants."""

from __future__ import annotations

import importlib
from operator import attrgetter
from typing import NamedTuple

PACKAGE = "rmqpull_broker"


class Limit(NamedTuple):
    """``constant`` is ``module:NAME`` within the broker's package; ``whose`` is Apache's, with its section, or ours."""

    what: str
    constant: str
    unit: str
    beyond: str
    whose: str

    @property
    def value(self) -> int:
        """What the broker works with."""
        module, _, name = self.constant.partition(":")
        value: int = attrgetter(name)(importlib.import_module(f"{PACKAGE}.{module}"))
        return value


def amount(value: int, unit: str) -> str:
    """A number with its unit, in the largest that leaves it whole."""
    for factor, larger in {"bytes": ((1 << 20, "MiB"), (1 << 10, "KiB")), "ms": ((3_600_000, "h"), (1_000, "s"))}.get(
        unit, ()
    ):
        if value % factor == 0:
            return f"{value // factor:,} {larger}"
    return f"{value:,} {unit}".rstrip()


_ONE_AT_A_TIME = "ours: it is taken in at one go, and nobody else is served meanwhile"
_MEMORY = "ours: memory is bounded"
_WAITS = "ours: every wait has an end"
_APACHES = "Apache's (5.11)"
_PROPERTIES_TOO_LARGE = "MESSAGE_PROPERTIES_TOO_LARGE"
_STREAM_ENDS = "the stream ends with INVALID_ARGUMENT"

LIMITS = {
    "Messages, topics and groups": (
        Limit("body of a message", "core.limits:BODY_BYTES_MAX", "bytes", "MESSAGE_BODY_TOO_LARGE", _APACHES),
        Limit("user properties of a message", "core.limits:USER_PROPERTIES_MAX", "", _PROPERTIES_TOO_LARGE, _APACHES),
        Limit(
            "user properties, tag and keys together",
            "core.limits:PROPERTIES_BYTES_MAX",
            "bytes",
            _PROPERTIES_TOO_LARGE,
            _APACHES,
        ),
        Limit(
            "all properties that are stored with a message",
            "core.limits:STORED_PROPERTIES_BYTES_MAX",
            "bytes",
            "MESSAGE_PROPERTIES_TOO_LARGE",
            "Apache's (3.10.1)",
        ),
        Limit(
            "message group", "core.limits:MESSAGE_GROUP_BYTES_MAX", "bytes", "ILLEGAL_MESSAGE_GROUP", "Apache's (5.5)"
        ),
        Limit("name of a topic", "core.naming:TOPIC_LENGTH_MAX", "characters", "ILLEGAL_TOPIC", "Apache's (3.9.2)"),
        Limit(
            "name of a consumer group",
            "core.naming:GROUP_LENGTH_MAX",
            "characters",
            "ILLEGAL_CONSUMER_GROUP",
            "Apache's (5.5)",
        ),
        Limit(
            "name of a group that a pull creates",
            "core.naming:CREATED_GROUP_LENGTH_MAX",
            "characters",
            "CONSUMER_GROUP_NOT_FOUND",
            "Apache's (6.1)",
        ),
        Limit(
            "name of a retry topic or a topic of dead letters",
            "core.naming:RETRY_TOPIC_LENGTH_MAX",
            "characters",
            "INTERNAL_SERVER_ERROR",
            "Apache's (3.9.2)",
        ),
        Limit(
            "delay of a message", "core.limits:DELAY_MS_MAX", "ms", "ILLEGAL_DELIVERY_TIME", "Apache's proxy's (5.11)"
        ),
        Limit(
            "recovery time that a half message asks for",
            "core.limits:RECOVERY_S_MAX",
            "s",
            "BAD_REQUEST",
            "Apache's proxy's (5.11)",
        ),
        Limit(
            "queues of a topic on each broker",
            "core.limits:QUEUES_MAX",
            "queues",
            "BAD_REQUEST",
            "ours: as many as the widest of Apache's own topics has (3.9.2)",
        ),
        Limit("permission bits of a topic", "core.topics:PERM_MAX", "", "BAD_REQUEST", "Apache's (3.9.1)"),
        Limit(
            "retry queues of a group", "core.groups:RETRY_QUEUES_MAX", "queues", "BAD_REQUEST", "ours: as for topics"
        ),
    ),
    "Pulls": (
        Limit(
            "messages of one v2 pull",
            "core.pulling:IN_MEMORY.message_count",
            "",
            "the next pull brings them",
            "Apache's (3.2.2)",
        ),
        Limit(
            "stored records of one v2 pull, but always one message",
            "core.pulling:IN_MEMORY.byte_count",
            "bytes",
            "the next pull brings them",
            "Apache's (3.2.2)",
        ),
        Limit(
            "messages that one v2 pull looks at",
            "core.pulling:SCAN_ENTRIES",
            "",
            "MESSAGE_NOT_FOUND with a later `next_offset`",
            "Apache's (3.2.2)",
        ),
        Limit(
            "entries of a consume-queue file, at whose end a v2 pull stops",
            "core.pulling:CONSUME_QUEUE_FILE_ENTRIES",
            "",
            "the next pull goes on",
            "Apache's (3.16)",
        ),
        Limit(
            "rows of one columnar pull",
            "server.limits:PULL_ROWS_MAX",
            "rows",
            "the next pull brings them",
            "ours: an answer has a size",
        ),
        Limit(
            "bytes of one columnar pull, but always one row",
            "server.limits:PULL_BYTES_MAX",
            "bytes",
            "the next pull brings them",
            "ours: an answer has a size",
        ),
        Limit(
            "rows of one queue that one columnar pull looks at",
            "core.column_pulling:COLUMN_SCAN_ROWS_MAX",
            "rows",
            "the next pull goes on",
            "ours: a rare tag holds nobody else up",
        ),
        Limit(
            "time that a pull may ask to be held",
            "server.service:LONG_POLLING_MS_MAX",
            "ms",
            "ILLEGAL_POLLING_TIME",
            _WAITS,
        ),
        Limit("pulls that are held at a time", "core.holding:PARKED_PULLS_MAX", "pulls", "TOO_MANY_REQUESTS", _MEMORY),
        Limit(
            "parts in one answer of CutRanges",
            "server.handlers.cut_ranges:PARTS_MAX",
            "parts",
            "the answer says which ranges have more",
            _MEMORY,
        ),
        Limit(
            "SQL92 expression",
            "core.filtering:EXPRESSION_LENGTH_MAX",
            "characters",
            "ILLEGAL_FILTER_EXPRESSION",
            "ours: reading one holds up every other caller",
        ),
        Limit(
            "nesting of a SQL92 expression",
            "core.sql92:NESTING_MAX",
            "levels",
            "ILLEGAL_FILTER_EXPRESSION",
            "ours: Python's stack; Java's takes some thousands",
        ),
    ),
    "Stages": (
        Limit("stages open at one time", "core.staging:STAGES_MAX", "", "TOO_MANY_REQUESTS", _MEMORY),
        Limit("rows of one stage", "core.staging:STAGE_ROWS_MAX", "rows", "TOO_MANY_REQUESTS", _WAITS),
        Limit("bytes of one stage", "core.staging:STAGE_BYTES_MAX", "bytes", "TOO_MANY_REQUESTS", _WAITS),
        Limit("notes on all stages in memory", "core.staging:STATE_BYTES_MAX", "bytes", "TOO_MANY_REQUESTS", _MEMORY),
        Limit("id of a stage or transaction", "core.staging:ID_LENGTH_MAX", "characters", "BAD_REQUEST", _MEMORY),
        Limit("destination of a commit", "core.commits:DESTINATION_LENGTH_MAX", "characters", "BAD_REQUEST", _MEMORY),
        Limit("plan or digest of a commit", "core.commits:DIGEST_BYTES_MAX", "bytes", "BAD_REQUEST", _MEMORY),
        Limit("timeout of a stage", "server.stage_work:TIMEOUT_MS_MAX", "ms", "BAD_REQUEST", _WAITS),
        Limit("committed writes remembered", "core.stages:WRITES_REMEMBERED_MAX", "", "the oldest go", _MEMORY),
    ),
    "Sends": (
        Limit("rows of one published batch", "server.limits:PUBLISH_ROWS_MAX", "rows", "BAD_REQUEST", _ONE_AT_A_TIME),
        Limit("topics of one published batch", "server.limits:PUBLISH_TOPICS_MAX", "", "BAD_REQUEST", _ONE_AT_A_TIME),
        Limit(
            "bytes of one published batch", "server.limits:PUBLISH_BYTES_MAX", "bytes", "BAD_REQUEST", _ONE_AT_A_TIME
        ),
        Limit(
            "any gRPC request",
            "server.limits:GRPC_MESSAGE_BYTES_MAX",
            "bytes",
            "gRPC's RESOURCE_EXHAUSTED",
            "ours: above any legal request",
        ),
        Limit(
            "writes that wait for the commit log",
            "server.group_commit:COMMANDS_WAITING_MAX",
            "",
            "TOO_MANY_REQUESTS",
            _MEMORY,
        ),
        Limit(
            "bytes that wait for the commit log",
            "server.group_commit:BYTES_WAITING_MAX",
            "bytes",
            "TOO_MANY_REQUESTS",
            _MEMORY,
        ),
        Limit(
            "delayed messages that wait, and half messages",
            "core.pending:PENDING_MAX",
            "each",
            "INTERNAL_SERVER_ERROR, as Apache's timer says it; TOO_MANY_REQUESTS for a half message",
            _MEMORY,
        ),
    ),
    "Storage": (
        Limit(
            "free space on the disk",
            "store.storage:StorageOptions.free_bytes_min",
            "bytes",
            "below it, messages are refused with INTERNAL_SERVER_ERROR and everything else goes on",
            "ours: offsets and retention need room",
        ),
        Limit(
            "messages from disk that stay in memory",
            "store.storage:StorageOptions.cache_bytes",
            "bytes",
            "those not read for longest leave it",
            _MEMORY,
        ),
        Limit(
            "log without a snapshot",
            "store.storage:StorageOptions.snapshot_bytes",
            "bytes",
            "a snapshot is taken",
            "ours: a start replays no more",
        ),
    ),
    "Clients": (
        Limit("clients", "server.limits:CLIENTS_MAX", "", _STREAM_ENDS, _MEMORY),
        Limit("telemetry streams", "server.limits:TELEMETRY_STREAMS_MAX", "", _STREAM_ENDS, _MEMORY),
        Limit(
            "commands that a client has not read",
            "server.telemetry_stream:COMMANDS_WAITING_MAX",
            "",
            "the stream is cut off",
            _MEMORY,
        ),
        Limit("settings of a client", "server.limits:SETTINGS_BYTES_MAX", "bytes", _STREAM_ENDS, _MEMORY),
        Limit("topics in a client's settings", "server.limits:SUBSCRIPTIONS_MAX", "", _STREAM_ENDS, _MEMORY),
        Limit(
            "client properties in a client's settings", "server.limits:CLIENT_PROPERTIES_MAX", "", _STREAM_ENDS, _MEMORY
        ),
        Limit(
            "memberships of consumers in groups, and of producers",
            "core.channels:REGISTRATIONS_MAX",
            "each",
            "TOO_MANY_REQUESTS",
            _MEMORY,
        ),
        Limit(
            "silence of a client", "core.channels:CHANNEL_EXPIRED_TIMEOUT_MS", "ms", "it is forgotten", "Apache's (3.6)"
        ),
        Limit(
            "attempts that producers are told to make",
            "core.client_settings:PRODUCER_ATTEMPTS_MAX",
            "",
            "the send fails",
            "Apache's (5.7.1)",
        ),
        Limit(
            "what pulls told of a group that sends no heartbeats",
            "core.consumer_registry:COMPENSATED_EXPIRED_TIMEOUT_MS",
            "ms",
            "it is forgotten",
            "Apache's (3.6)",
        ),
        Limit(
            "groups known by pulls alone",
            "core.consumer_registry:COMPENSATED_GROUPS_MAX",
            "",
            "the oldest is forgotten",
            _MEMORY,
        ),
        Limit(
            "topics of a group known by pulls alone",
            "core.consumer_registry:COMPENSATED_TOPICS_MAX",
            "",
            "the oldest is forgotten",
            _MEMORY,
        ),
        Limit(
            "groups whose heartbeat fingerprint is known",
            "core.heartbeats:FINGERPRINTS_MAX",
            "",
            "the oldest is forgotten",
            _MEMORY,
        ),
        Limit("filters of subscriptions", "core.subscriptions:FILTERS_MAX", "", "the oldest is forgotten", _MEMORY),
        Limit(
            "age of a filter that nobody subscribes with",
            "core.subscriptions:DEAD_FILTER_MS_MAX",
            "ms",
            "it is forgotten",
            "Apache's (`filterDataCleanTimeSpan`)",
        ),
        Limit("queue locks", "core.queue_locks:LOCKS_MAX", "", "TOO_MANY_REQUESTS", _MEMORY),
        Limit(
            "life of a queue lock that is not renewed",
            "core.queue_locks:LOCK_MAX_LIVE_TIME_MS",
            "ms",
            "anybody may take it",
            "Apache's (3.8)",
        ),
        Limit(
            "calls at a time on one connection",
            "server.connections:STREAMS_PER_CONNECTION_MAX",
            "calls",
            "further ones wait in the client",
            _MEMORY,
        ),
        Limit("calls at a time", "server.connections:CALLS_MAX", "calls", "gRPC's RESOURCE_EXHAUSTED", _MEMORY),
    ),
    "Looking after it": (
        Limit(
            "logical brokers", "config:BROKERS_MAX", "", "`serve` does not start", "ours: a process is not a cluster"
        ),
        Limit("messages that `peek` shows", "cli.peek:NEWEST_MAX", "", "wrong usage", _MEMORY),
        Limit(
            "line that `send` reads",
            "cli.send:LINE_BYTES_MAX",
            "bytes",
            "refused with its number",
            "ours: the largest body fits",
        ),
        Limit("reports of lost rows", "core.state:LOST_RANGES_MAX", "", "the oldest is forgotten", _MEMORY),
        Limit("fault rules", "core.fault_rules:RULES_MAX", "", "TOO_MANY_REQUESTS", _MEMORY),
        Limit("delay by a fault rule", "core.fault_rules:DELAY_MS_MAX", "ms", "BAD_REQUEST", _WAITS),
        Limit(
            "calls that fault rules keep back", "server.faults:CALLS_KEPT_MAX", "calls", "TOO_MANY_REQUESTS", _MEMORY
        ),
        Limit(
            "one advance of a manual clock",
            "server.time_machine:ADVANCE_MS_MAX",
            "ms",
            "BAD_REQUEST",
            "ours: ten years, all of whose timers fire",
        ),
        Limit("connections to the page of metrics", "server.exposition:CONNECTIONS_MAX", "", "closed", _MEMORY),
        Limit("request for the page of metrics", "server.exposition:REQUEST_BYTES_MAX", "bytes", "closed", _MEMORY),
        Limit(
            "lag on the page of metrics",
            "server.exposition:LAG_SERIES_MAX",
            "series",
            "the least are left out",
            "ours: Prometheus keeps each of them",
        ),
    ),
}

INTERNAL = {
    "core.limits:RECONSUME_TIMES_MAX": "what 32 bits hold; a message that was tried as often is counted no further",
    "core.delays:DELIVERIES_MAX": "the share of one command; the next one delivers the rest at once",
    "core.transactions:CHECKS_MAX": "the share of one command; the next one checks the rest at once",
    "core.trimming:PUT_AGAIN_MAX": "the share of one command; the next one puts the rest again at once",
    "core.trimming:PUT_AGAIN_BYTES_MAX": "the share of one command; the next one puts the rest again at once",
    "core.filtering:COMPILED_EXPRESSIONS_MAX": "a cache; an expression that fell out of it is compiled again",
    "core.java_values:INTEGER_MAX": "Java's Integer",
    "core.java_values:LONG_MAX": "Java's Long",
    "core.queue_selection:TURNS_MAX": "topics whose turn is known; another one begins at its first queue again",
    "server.connections:PENDING_CALLS_MAX": "how gRPC lets a burst of calls in; none of them is refused",
    "store.queue:TAIL_ROWS_MAX": "how messages are held in memory; nobody sees its borders",
    "store.chunks:CHUNK_ROWS_MAX": "how messages are held in memory; nobody sees its borders",
    "store.chunks:CHUNK_BYTES_MAX": "how messages are held in memory; nobody sees its borders",
    "store.replaying:ROWS_TOGETHER_MAX": "how a start takes in rows; nobody sees its borders",
    "store.queues:SLICES_PER_BATCH_MAX": "how messages are held in memory; nobody sees its borders",
    "store.queue_files:OPEN_FILES_MAX": "a cache; a file that fell out of it is opened again",
}
"""Constants that limit nothing a user can meet, each with the reason."""
