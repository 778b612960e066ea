"""The limits of storage, clients and administration."""

from __future__ import annotations

from scripts.limit import MEMORY, STREAM_ENDS, WAITS, Limit

LIMITS_OF_SERVER = {
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
            MEMORY,
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
        Limit("clients", "server.wire.limits:CLIENTS_MAX", "", STREAM_ENDS, MEMORY),
        Limit("telemetry streams", "server.wire.limits:TELEMETRY_STREAMS_MAX", "", STREAM_ENDS, MEMORY),
        Limit(
            "commands that a client has not read",
            "server.clients.telemetry_stream:COMMANDS_WAITING_MAX",
            "",
            "the stream is cut off",
            MEMORY,
        ),
        Limit("settings of a client", "server.wire.limits:SETTINGS_BYTES_MAX", "bytes", STREAM_ENDS, MEMORY),
        Limit("topics in a client's settings", "server.wire.limits:SUBSCRIPTIONS_MAX", "", STREAM_ENDS, MEMORY),
        Limit(
            "client properties in a client's settings",
            "server.wire.limits:CLIENT_PROPERTIES_MAX",
            "",
            STREAM_ENDS,
            MEMORY,
        ),
        Limit(
            "memberships of consumers in groups, and of producers",
            "core.clients.registries:REGISTRATIONS_MAX",
            "each",
            "TOO_MANY_REQUESTS",
            MEMORY,
        ),
        Limit(
            "silence of a client",
            "core.clients.members:CHANNEL_EXPIRED_TIMEOUT_MS",
            "ms",
            "it is forgotten",
            "Apache's (rules 3.6)",
        ),
        Limit(
            "attempts that producers are told to make",
            "core.clients.settings:PRODUCER_ATTEMPTS_MAX",
            "",
            "the send fails",
            "Apache's (rules 5.7.1)",
        ),
        Limit(
            "what pulls told of a group that sends no heartbeats",
            "core.clients.registries:COMPENSATED_EXPIRED_TIMEOUT_MS",
            "ms",
            "it is forgotten",
            "Apache's (rules 3.6)",
        ),
        Limit(
            "groups known by pulls alone",
            "core.clients.registries:COMPENSATED_GROUPS_MAX",
            "",
            "the oldest is forgotten",
            MEMORY,
        ),
        Limit(
            "topics of a group known by pulls alone",
            "core.clients.registries:COMPENSATED_TOPICS_MAX",
            "",
            "the oldest is forgotten",
            MEMORY,
        ),
        Limit(
            "groups whose heartbeat fingerprint is known",
            "core.clients.heartbeats:FINGERPRINTS_MAX",
            "",
            "the oldest is forgotten",
            MEMORY,
        ),
        Limit(
            "filters of subscriptions", "core.clients.subscriptions:FILTERS_MAX", "", "the oldest is forgotten", MEMORY
        ),
        Limit(
            "age of a filter that nobody subscribes with",
            "core.clients.subscriptions:DEAD_FILTER_MS_MAX",
            "ms",
            "it is forgotten",
            "Apache's (`filterDataCleanTimeSpan`)",
        ),
        Limit("queue locks", "core.clients.queue_locks:LOCKS_MAX", "", "TOO_MANY_REQUESTS", MEMORY),
        Limit(
            "life of a queue lock that is not renewed",
            "core.clients.queue_locks:LOCK_MAX_LIVE_TIME_MS",
            "ms",
            "anybody may take it",
            "Apache's (rules 3.8)",
        ),
        Limit(
            "calls at a time on one connection",
            "server.grpc.connections:STREAMS_PER_CONNECTION_MAX",
            "calls",
            "further ones wait in the client",
            MEMORY,
        ),
        Limit("calls at a time", "server.grpc.connections:CALLS_MAX", "calls", "gRPC's RESOURCE_EXHAUSTED", MEMORY),
    ),
    "Looking after it": (
        Limit(
            "logical brokers", "config:BROKERS_MAX", "", "`serve` does not start", "ours: a process is not a cluster"
        ),
        Limit("messages that `peek` shows", "cli.peek:NEWEST_MAX", "", "wrong usage", MEMORY),
        Limit(
            "line that `send` reads",
            "cli.send:LINE_BYTES_MAX",
            "bytes",
            "refused with its number",
            "ours: the largest body fits",
        ),
        Limit("reports of lost rows", "core.state.broker_state:LOST_RANGES_MAX", "", "the oldest is forgotten", MEMORY),
        Limit("fault rules", "core.admin.fault_rules:RULES_MAX", "", "TOO_MANY_REQUESTS", MEMORY),
        Limit("delay by a fault rule", "core.admin.fault_rules:DELAY_MS_MAX", "ms", "BAD_REQUEST", WAITS),
        Limit(
            "calls that fault rules keep back",
            "server.runtime.faults:CALLS_KEPT_MAX",
            "calls",
            "TOO_MANY_REQUESTS",
            MEMORY,
        ),
        Limit(
            "one advance of a manual clock",
            "server.runtime.time_machine:ADVANCE_MS_MAX",
            "ms",
            "BAD_REQUEST",
            "ours: ten years, all of whose timers fire",
        ),
        Limit(
            "connections to the page of metrics",
            "server.observability.exposition:CONNECTIONS_MAX",
            "",
            "closed",
            MEMORY,
        ),
        Limit(
            "request for the page of metrics",
            "server.observability.exposition:REQUEST_BYTES_MAX",
            "bytes",
            "closed",
            MEMORY,
        ),
        Limit(
            "lag on the page of metrics",
            "server.observability.exposition:LAG_SERIES_MAX",
            "series",
            "the least are left out",
            "ours: Prometheus keeps each of them",
        ),
    ),
}
