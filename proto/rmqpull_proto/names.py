"""Names of topics and groups that have a meaning on every broker of RocketMQ, whatever the protocol (rules 3.9.2).

This is their only place: broker, client and connector import them from here. It imports nothing.
"""

from __future__ import annotations

RETRY_PREFIX = "%RETRY%"
"""The topic of a group's retries is ``%RETRY%group``."""
DLQ_PREFIX = "%DLQ%"
"""The topic of a group's dead letters is ``%DLQ%group``."""

TBW102 = "TBW102"
"""The default topic: the template of topics that a send creates."""
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
"""Where messages with a delay level wait."""
TIMER_TOPIC = "rmq_sys_wheel_timer"
"""Where messages with a delivery time wait."""
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
"""Where half messages wait."""
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
"""Which of them have ended."""
ROCKSDB_HALF_TOPICS = ("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC")
CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Half messages that were checked as often as the broker may."""
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT = "OFFSET_MOVED_EVENT"
BENCHMARK_TOPIC = "BenchmarkTest"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"

SEND_FORBIDDEN_TOPICS = frozenset(
    {
        *(SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, *ROCKSDB_HALF_TOPICS, CHECK_MAX_TIME_TOPIC),
        *(SELF_TEST_TOPIC, OFFSET_MOVED_EVENT),
    }
)
"""Topics that no client may send to."""
SYSTEM_TOPICS = SEND_FORBIDDEN_TOPICS | {BENCHMARK_TOPIC, TRACE_TOPIC, TBW102}
"""The system topics of every broker, but those whose names begin with SYSTEM_TOPIC_PREFIX or name a cluster."""
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
REPLY_SUFFIX = "_REPLY_TOPIC"
"""The topic of a cluster's replies is ``CLUSTER_REPLY_TOPIC``."""

TOOLS_GROUP = "TOOLS_CONSUMER"
"""A group that every broker has, for RocketMQ's own tools. Brokers of 4.x that check access keys permit it only to
users with that right."""
GROUPS_FROM_START = (
    TOOLS_GROUP,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)
"""The groups that each broker has from its start (``SubscriptionGroupManager.init`` of 5.5.0)."""
