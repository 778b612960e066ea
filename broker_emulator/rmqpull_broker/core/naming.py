"""Legal names of topics and consumer groups (rocketmq-semantics 3.9.2, 5.5 and, over them, 6.1)."""

from __future__ import annotations

import re

from rmqpull_broker.core.errors import IllegalConsumerGroup, IllegalTopic

TOPIC_LENGTH_MAX = 127
GROUP_LENGTH_MAX = 120
_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")
_SYSTEM_TOPICS = frozenset(
    {
        "BenchmarkTest",
        "RMQ_SYS_TRACE_TOPIC",
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "TBW102",
    }
)
_SYSTEM_TOPIC_PREFIX = "rmq_sys_"
_SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"


def check_topic_name(topic: str) -> None:
    """Raises IllegalTopic, in RocketMQ's words, unless clients may use a topic of this name."""
    if not topic.strip():
        raise IllegalTopic("The specified topic is blank.")
    if not _LEGAL.fullmatch(topic):
        raise IllegalTopic("The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$")
    if len(topic) > TOPIC_LENGTH_MAX:
        raise IllegalTopic("The specified topic is longer than topic max length.")
    if topic in _SYSTEM_TOPICS or topic.startswith(_SYSTEM_TOPIC_PREFIX):
        raise IllegalTopic("cannot access system topic")


def check_group_name(group: str) -> None:
    """Raises IllegalConsumerGroup unless clients may use a consumer group of this name."""
    if not group.strip():
        raise IllegalConsumerGroup("The specified group is blank.")
    if not _LEGAL.fullmatch(group):
        raise IllegalConsumerGroup("The specified group contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$")
    if len(group) > GROUP_LENGTH_MAX:
        raise IllegalConsumerGroup("The specified group is longer than group max length.")
    if is_system_group(group):
        raise IllegalConsumerGroup("cannot use system consumer group")


def is_system_group(group: str) -> bool:
    """Whether RocketMQ itself consumes under this name."""
    return group.startswith(_SYSTEM_GROUP_PREFIX)
