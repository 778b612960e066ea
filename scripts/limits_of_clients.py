"""The limits of clients, their connections and their requests."""

from __future__ import annotations

from scripts.limit import FAIR_SHARE, MEMORY, ONE_AT_A_TIME, STREAM_ENDS, Limit

LIMITS_OF_CLIENTS = {
    "Clients": (
        Limit("clients", "server.wire.limits:CLIENTS_MAX", "", STREAM_ENDS, MEMORY),
        Limit(
            "telemetry streams of one address", "server.wire.limits:TELEMETRY_STREAMS_MAX", "", STREAM_ENDS, FAIR_SHARE
        ),
        Limit(
            "commands waiting for a client",
            "server.clients:COMMANDS_WAITING_MAX",
            "",
            "the stream ends",
            MEMORY,
        ),
        Limit(
            "questions that clients of gRPC have not answered",
            "server.questions:QUESTIONS_MAX",
            "",
            "the request is refused with 1",
            MEMORY,
        ),
        Limit("settings of a client", "server.wire.limits:CLIENT_SETTINGS_BYTES_MAX", "bytes", STREAM_ENDS, MEMORY),
        Limit("topics in a client's settings", "server.wire.limits:SUBSCRIPTIONS_MAX", "", STREAM_ENDS, MEMORY),
        Limit(
            "client properties in a client's settings",
            "server.wire.limits:CLIENT_PROPERTIES_MAX",
            "",
            STREAM_ENDS,
            MEMORY,
        ),
        Limit(
            "groups in a heartbeat of the remoting protocol",
            "server.wire.limits:HEARTBEAT_GROUPS_MAX",
            "",
            "the heartbeat is refused",
            MEMORY,
        ),
        Limit(
            "topics in a heartbeat of the remoting protocol",
            "server.wire.limits:HEARTBEAT_TOPICS_MAX",
            "",
            "the heartbeat is refused",
            ONE_AT_A_TIME,
        ),
        Limit(
            "body of a heartbeat of the remoting protocol",
            "server.remoting.bounds:HEARTBEAT_BYTES_MAX",
            "bytes",
            "SYSTEM_ERROR",
            ONE_AT_A_TIME,
        ),
        Limit(
            "body of a list of settings of topics or groups",
            "server.remoting.bounds:SETTINGS_LIST_BYTES_MAX",
            "bytes",
            "SYSTEM_ERROR",
            ONE_AT_A_TIME,
        ),
        Limit(
            "body of locks and of acknowledgements",
            "server.remoting.bounds:LIST_BYTES_MAX",
            "bytes",
            "SYSTEM_ERROR",
            ONE_AT_A_TIME,
        ),
        Limit(
            "body of any other request of the remoting protocol, except messages",
            "server.remoting.bounds:BODY_BYTES_MAX",
            "bytes",
            "SYSTEM_ERROR",
            ONE_AT_A_TIME,
        ),
        Limit(
            "header of a request of the remoting protocol",
            "server.remoting.connection:REQUEST_HEADER_BYTES_MAX",
            "bytes",
            "the connection is closed",
            ONE_AT_A_TIME,
        ),
        Limit(
            "request over gRPC with a list of queues or parts",
            "server.grpc.bounds:QUEUES_BYTES_MAX",
            "bytes",
            "BAD_REQUEST",
            ONE_AT_A_TIME,
        ),
        Limit(
            "request over gRPC with acknowledgements, queues to lock, or names to look up",
            "server.grpc.bounds:ENTRIES_BYTES_MAX",
            "bytes",
            "BAD_REQUEST",
            ONE_AT_A_TIME,
        ),
        Limit(
            "settings of a client over gRPC",
            "server.grpc.bounds:TELEMETRY_BYTES_MAX",
            "bytes",
            "BAD_REQUEST",
            ONE_AT_A_TIME,
        ),
        Limit(
            "any other request over gRPC",
            "server.grpc.bounds:REQUEST_BYTES_MAX",
            "bytes",
            "BAD_REQUEST",
            ONE_AT_A_TIME,
        ),
        Limit(
            "acknowledgements in one request",
            "server.wire.limits:BATCH_ACKS_MAX",
            "",
            "the request is refused",
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
            "groups with a topic for which it was set whether they pop",
            "core.admin.request_modes:REQUEST_MODES_MAX",
            "",
            "code 2",
            MEMORY,
        ),
        Limit(
            "time without a heartbeat from a client",
            "core.clients.members:CHANNEL_EXPIRED_TIMEOUT_MS",
            "ms",
            "forgotten",
            "Apache's (rules 3.6)",
        ),
        Limit(
            "send attempts in the settings of producers",
            "core.clients.settings:PRODUCER_ATTEMPTS_MAX",
            "",
            "the send fails",
            "Apache's (rules 5.7.1)",
        ),
        Limit(
            "subscriptions of a group that pulls but sends no heartbeats",
            "core.clients.registries:COMPENSATED_EXPIRED_TIMEOUT_MS",
            "ms",
            "forgotten",
            "Apache's (rules 3.6)",
        ),
        Limit(
            "groups known only from pulls",
            "core.clients.registries:COMPENSATED_GROUPS_MAX",
            "",
            "the oldest is forgotten",
            MEMORY,
        ),
        Limit(
            "topics of a group known only from pulls",
            "core.clients.registries:COMPENSATED_TOPICS_MAX",
            "",
            "the oldest is forgotten",
            MEMORY,
        ),
        Limit(
            "remembered heartbeat fingerprints",
            "core.clients.heartbeats:FINGERPRINTS_MAX",
            "",
            "the oldest is forgotten",
            MEMORY,
        ),
        Limit(
            "filters of subscriptions", "core.clients.subscriptions:FILTERS_MAX", "", "the oldest is forgotten", MEMORY
        ),
        Limit(
            "age of a filter without subscribers",
            "core.clients.subscriptions:DEAD_FILTER_MS_MAX",
            "ms",
            "forgotten",
            "Apache's (`filterDataCleanTimeSpan`)",
        ),
        Limit(
            "queue locks of one connection", "core.clients.queue_locks:LOCKS_MAX", "", "TOO_MANY_REQUESTS", FAIR_SHARE
        ),
        Limit(
            "life of a queue lock without renewal",
            "core.clients.queue_locks:LOCK_MAX_LIVE_TIME_MS",
            "ms",
            "any client may take it",
            "Apache's (rules 3.8)",
        ),
        Limit(
            "concurrent calls on one connection",
            "server.grpc.connections:STREAMS_PER_CONNECTION_MAX",
            "calls",
            "more calls wait in the client",
            MEMORY,
        ),
        Limit(
            "concurrent calls of one connection",
            "server.grpc.connections:CALLS_MAX",
            "calls",
            "TOO_MANY_REQUESTS",
            FAIR_SHARE,
        ),
        Limit(
            "concurrent calls of all, with those that are about to be refused",
            "server.grpc.connections:CALLS_OF_ALL_MAX",
            "calls",
            "gRPC's RESOURCE_EXHAUSTED",
            MEMORY,
        ),
    ),
}
