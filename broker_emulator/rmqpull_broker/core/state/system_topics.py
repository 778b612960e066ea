"""The topics that a broker has from its start (rules 3.9.2)."""

from __future__ import annotations

from collections.abc import Sequence

from rmqpull_broker.core.model import PERM_INHERIT, PERM_READ, PERM_WRITE, TopicConfig
from rmqpull_broker.core.properties import BrokerProperties

TBW102 = "TBW102"
"""The default topic: a topic that a send creates is made after it."""
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
DELAY_TOPICS = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC})
"""Where delayed messages wait; nobody reads them before their time."""
WAITING_TOPICS = DELAY_TOPICS | {HALF_TOPIC}
"""Where delayed and half messages wait; these topics are never deleted."""
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"

SEND_FORBIDDEN = frozenset(
    {SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, CHECK_MAX_TIME_TOPIC, "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"}
)
"""Topics that no client may send to."""

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
STAGE_PREFIX = "%STAGE%"
"""What the names of the hidden topics of stages begin with; no client may name a topic so."""

_RW = PERM_READ | PERM_WRITE
_RWX = _RW | PERM_INHERIT


def system_topics(properties: BrokerProperties, broker_names: Sequence[str]) -> dict[str, TopicConfig]:
    """The system topics of a broker with these properties, by name."""
    cluster = properties.broker_cluster_name
    topics = [
        ("SELF_TEST_TOPIC", 1, _RW),
        ("BenchmarkTest", 1024, _RW),
        (cluster, 16, _RWX),
        *((name, 1, _RWX) for name in broker_names),
        ("OFFSET_MOVED_EVENT", 1, _RW),
        (SCHEDULE_TOPIC, len(properties.message_delay_level.split()), _RW),
        (f"{cluster}_REPLY_TOPIC", 1, _RW),
        (f"rmq_sys_REVIVE_LOG_{cluster}", 8, _RW),
        (HALF_TOPIC, 1, _RW),
        (OP_HALF_TOPIC, 1, _RW),
        (CHECK_MAX_TIME_TOPIC, 1, _RW),
        *((f"rmq_sys_SYNC_BROKER_MEMBER_{name}", 1, PERM_INHERIT) for name in broker_names),
    ]
    if properties.auto_create_topic_enable:
        topics.append((TBW102, properties.default_topic_queue_nums, _RWX))
    if properties.timer_wheel_enable:
        topics.append((TIMER_TOPIC, 1, _RW))
    return {name: TopicConfig(name, queues, queues, perm=perm, creation_id="system") for name, queues, perm in topics}
