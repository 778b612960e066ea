"""Limits of messages, and reserved names (rules 5.5, 5.11). Imports nothing of the project."""

from __future__ import annotations

QUEUES_MAX = 1024
"""Queues of one topic; Apache's BenchmarkTest, the widest of its own topics, has as many (rules 3.9.2)."""

BODY_BYTES_MAX = 4_194_304
USER_PROPERTIES_MAX = 128
PROPERTIES_BYTES_MAX = 16_384
MESSAGE_GROUP_BYTES_MAX = 63
DELAY_MS_MAX = 86_400_000
"""The maximum delay for clients of the gRPC protocol. A broker accepts more."""
RECOVERY_S_MAX = 3_600
"""The maximum immunity of a half message from checks."""
STORED_PROPERTIES_BYTES_MAX = 32_767
"""The size of all properties that RocketMQ stores, ids and traces included (rules 3.10.1)."""

RECONSUME_TIMES_MAX = 2**31 - 2
"""The maximum number of counted retries: the number of the next attempt still fits into 32 bits."""

TIMES_MS = (-62_135_596_800_000, 253_402_300_799_999)
"""The range of a protobuf Timestamp: the years 1 to 9999, in milliseconds since the epoch."""

CONTROL_CHARACTERS = r"[\x00-\x1f\x7f-\x9f]"
"""A regular expression for the characters of Java's ``Character.isISOControl``."""

RESERVED_PROPERTY_KEYS = frozenset(
    """
    TRACE_ON MSG_REGION KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET
    BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME UNIQ_KEY MAX_RECONSUME_TIMES
    CONSUME_START_TIME POP_CK POP_CK_OFFSET 1ST_POP_TIME TRAN_PREPARED_QUEUE_OFFSET DUP_INFO EXTEND_UNIQ_INFO
    INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE
    INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS
    TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL __BORNHOST BORN_TIMESTAMP DLQ_ORIGIN_TOPIC
    DLQ_ORIGIN_MESSAGE_ID __CRC32#
    """.split()  # noqa: SIM905 (a list literal would be sixty lines)
)
