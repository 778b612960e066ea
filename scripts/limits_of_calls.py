"""The limits of messages, pulls, stages and sends."""

from __future__ import annotations

from limit import APACHES, MEMORY, ONE_AT_A_TIME, PROPERTIES_TOO_LARGE, WAITS, Limit

LIMITS_OF_CALLS = {
    "Messages, topics and groups": (
        Limit("body of a message", "core.limits:BODY_BYTES_MAX", "bytes", "MESSAGE_BODY_TOO_LARGE", APACHES),
        Limit("user properties of a message", "core.limits:USER_PROPERTIES_MAX", "", PROPERTIES_TOO_LARGE, APACHES),
        Limit(
            "user properties, tag and keys together",
            "core.limits:PROPERTIES_BYTES_MAX",
            "bytes",
            PROPERTIES_TOO_LARGE,
            APACHES,
        ),
        Limit(
            "all properties that are stored with a message",
            "core.limits:STORED_PROPERTIES_BYTES_MAX",
            "bytes",
            "MESSAGE_PROPERTIES_TOO_LARGE",
            "Apache's (rules 3.10.1)",
        ),
        Limit(
            "message group",
            "core.limits:MESSAGE_GROUP_BYTES_MAX",
            "bytes",
            "ILLEGAL_MESSAGE_GROUP",
            "Apache's (rules 5.5)",
        ),
        Limit(
            "name of a topic",
            "core.admin.naming:TOPIC_LENGTH_MAX",
            "characters",
            "ILLEGAL_TOPIC",
            "Apache's (rules 3.9.2)",
        ),
        Limit(
            "name of a consumer group",
            "core.admin.naming:GROUP_LENGTH_MAX",
            "characters",
            "ILLEGAL_CONSUMER_GROUP",
            "Apache's (rules 5.5)",
        ),
        Limit(
            "name of a group that a pull creates",
            "core.admin.naming:CREATED_GROUP_LENGTH_MAX",
            "characters",
            "CONSUMER_GROUP_NOT_FOUND",
            "Apache's (rules 6.1)",
        ),
        Limit(
            "name of a retry topic or a topic of dead letters",
            "core.admin.naming:RETRY_TOPIC_LENGTH_MAX",
            "characters",
            "INTERNAL_SERVER_ERROR",
            "Apache's (rules 3.9.2)",
        ),
        Limit(
            "delay of a message",
            "core.limits:DELAY_MS_MAX",
            "ms",
            "ILLEGAL_DELIVERY_TIME",
            "Apache's proxy's (rules 5.11)",
        ),
        Limit(
            "recovery time that a half message asks for",
            "core.limits:RECOVERY_S_MAX",
            "s",
            "BAD_REQUEST",
            "Apache's proxy's (rules 5.11)",
        ),
        Limit(
            "queues of a topic on each broker",
            "core.limits:QUEUES_MAX",
            "queues",
            "BAD_REQUEST",
            "ours: as many as the widest of Apache's own topics has (rules 3.9.2)",
        ),
        Limit("permission bits of a topic", "core.admin.topics:PERM_MAX", "", "BAD_REQUEST", "Apache's (rules 3.9.1)"),
        Limit(
            "retry queues of a group",
            "core.admin.groups:RETRY_QUEUES_MAX",
            "queues",
            "BAD_REQUEST",
            "ours: as for topics",
        ),
    ),
    "Pulls": (
        Limit(
            "messages of one v2 pull",
            "core.pulling.messages:IN_MEMORY.message_count",
            "",
            "the next pull brings them",
            "Apache's (rules 3.2.2)",
        ),
        Limit(
            "stored records of one v2 pull, but always one message",
            "core.pulling.messages:IN_MEMORY.byte_count",
            "bytes",
            "the next pull brings them",
            "Apache's (rules 3.2.2)",
        ),
        Limit(
            "messages that one v2 pull looks at",
            "core.pulling.messages:SCAN_ENTRIES",
            "",
            "MESSAGE_NOT_FOUND with a later `next_offset`",
            "Apache's (rules 3.2.2)",
        ),
        Limit(
            "entries of a consume-queue file, at whose end a v2 pull stops",
            "core.pulling.messages:CONSUME_QUEUE_FILE_ENTRIES",
            "",
            "the next pull goes on",
            "Apache's (rules 3.16)",
        ),
        Limit(
            "rows of one columnar pull",
            "server.wire.limits:PULL_ROWS_MAX",
            "rows",
            "the next pull brings them",
            "ours: an answer has a size",
        ),
        Limit(
            "bytes of one columnar pull, but always one row",
            "server.wire.limits:PULL_BYTES_MAX",
            "bytes",
            "the next pull brings them",
            "ours: an answer has a size",
        ),
        Limit(
            "rows of one queue that one columnar pull looks at",
            "core.pulling.columns:COLUMN_SCAN_ROWS_MAX",
            "rows",
            "the next pull goes on",
            "ours: a rare tag holds nobody else up",
        ),
        Limit(
            "time that a pull may ask to be held",
            "server.runtime.service:LONG_POLLING_MS_MAX",
            "ms",
            "ILLEGAL_POLLING_TIME",
            WAITS,
        ),
        Limit(
            "pulls that are held at a time",
            "core.pulling.parking:PARKED_PULLS_MAX",
            "pulls",
            "TOO_MANY_REQUESTS",
            MEMORY,
        ),
        Limit(
            "parts in one answer of CutRanges",
            "server.handlers.columns.bounds:PARTS_MAX",
            "parts",
            "the answer says which ranges have more",
            MEMORY,
        ),
        Limit(
            "SQL92 expression",
            "core.filters.filtering:EXPRESSION_LENGTH_MAX",
            "characters",
            "ILLEGAL_FILTER_EXPRESSION",
            "ours: reading one holds up every other caller",
        ),
        Limit(
            "nesting of a SQL92 expression",
            "core.filters.sql92:NESTING_MAX",
            "levels",
            "ILLEGAL_FILTER_EXPRESSION",
            "ours: Python's stack; Java's takes some thousands",
        ),
    ),
    "Stages": (
        Limit("stages open at one time", "core.sending.staging:STAGES_MAX", "", "TOO_MANY_REQUESTS", MEMORY),
        Limit("rows of one stage", "core.sending.staging:STAGE_ROWS_MAX", "rows", "TOO_MANY_REQUESTS", WAITS),
        Limit("bytes of one stage", "core.sending.staging:STAGE_BYTES_MAX", "bytes", "TOO_MANY_REQUESTS", WAITS),
        Limit(
            "notes on all stages in memory",
            "core.sending.staging:STATE_BYTES_MAX",
            "bytes",
            "TOO_MANY_REQUESTS",
            MEMORY,
        ),
        Limit(
            "id of a stage or transaction", "core.sending.staging:ID_LENGTH_MAX", "characters", "BAD_REQUEST", MEMORY
        ),
        Limit(
            "destination of a commit",
            "core.sending.commits:DESTINATION_LENGTH_MAX",
            "characters",
            "BAD_REQUEST",
            MEMORY,
        ),
        Limit("plan or digest of a commit", "core.sending.commits:DIGEST_BYTES_MAX", "bytes", "BAD_REQUEST", MEMORY),
        Limit("timeout of a stage", "server.runtime.stage_work:TIMEOUT_MS_MAX", "ms", "BAD_REQUEST", WAITS),
        Limit("committed writes remembered", "core.state.stages:WRITES_REMEMBERED_MAX", "", "the oldest go", MEMORY),
    ),
    "Sends": (
        Limit(
            "rows of one published batch", "server.wire.limits:PUBLISH_ROWS_MAX", "rows", "BAD_REQUEST", ONE_AT_A_TIME
        ),
        Limit(
            "topics of one published batch", "server.wire.limits:PUBLISH_TOPICS_MAX", "", "BAD_REQUEST", ONE_AT_A_TIME
        ),
        Limit(
            "bytes of one published batch",
            "server.wire.limits:PUBLISH_BYTES_MAX",
            "bytes",
            "BAD_REQUEST",
            ONE_AT_A_TIME,
        ),
        Limit(
            "any gRPC request",
            "server.wire.limits:GRPC_MESSAGE_BYTES_MAX",
            "bytes",
            "gRPC's RESOURCE_EXHAUSTED",
            "ours: above any legal request",
        ),
        Limit(
            "writes that wait for the commit log",
            "server.runtime.group_commit:COMMANDS_WAITING_MAX",
            "",
            "TOO_MANY_REQUESTS",
            MEMORY,
        ),
        Limit(
            "bytes that wait for the commit log",
            "server.runtime.group_commit:BYTES_WAITING_MAX",
            "bytes",
            "TOO_MANY_REQUESTS",
            MEMORY,
        ),
        Limit(
            "delayed messages that wait, and half messages",
            "core.state.pending:PENDING_MAX",
            "each",
            "INTERNAL_SERVER_ERROR, as Apache's timer says it; TOO_MANY_REQUESTS for a half message",
            MEMORY,
        ),
    ),
}
