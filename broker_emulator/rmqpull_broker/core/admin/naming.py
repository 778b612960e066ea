"""Legal names of topics and consumer groups (rules 3.9.2, 5.5, 6.1)."""

from __future__ import annotations

import re

from rmqpull_broker.core.errors import IllegalConsumerGroup, IllegalTopic
from rmqpull_broker.core.state.system_topics import DLQ_PREFIX, RETRY_PREFIX, STAGE_PREFIX

TOPIC_LENGTH_MAX = 127
RETRY_TOPIC_LENGTH_MAX = 255
"""What the store takes for ``%RETRY%`` and ``%DLQ%`` topics, which the broker itself makes."""
GROUP_LENGTH_MAX = 120
CREATED_GROUP_LENGTH_MAX = 255
"""What a broker's own look-up takes; clients of the gRPC protocol may not use more than GROUP_LENGTH_MAX."""
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
    check_topic_spelling(topic)
    if is_system_topic(topic):
        raise IllegalTopic("cannot access system topic")


def check_topic_spelling(topic: str) -> None:
    """Raises IllegalTopic unless a broker takes the name; it takes those of system topics too."""
    if not topic.strip():
        raise IllegalTopic("The specified topic is blank.")
    if not _LEGAL.fullmatch(topic):
        raise IllegalTopic("The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$")
    if len(topic) > TOPIC_LENGTH_MAX:
        raise IllegalTopic("The specified topic is longer than topic max length.")


def is_system_topic(topic: str) -> bool:
    """Whether RocketMQ itself uses this topic, on whatever broker, or this broker does."""
    return topic in _SYSTEM_TOPICS or topic.startswith((_SYSTEM_TOPIC_PREFIX, STAGE_PREFIX))


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


def in_namespace(namespace: str, name: str) -> str:
    """A name as brokers know it: ``shop%orders``, but ``%RETRY%shop%billing``; one that has its namespace keeps it."""
    prefix = next((prefix for prefix in (RETRY_PREFIX, DLQ_PREFIX) if name.startswith(prefix)), "")
    rest = name.removeprefix(prefix)
    if not (namespace and name) or rest.startswith(f"{namespace}%") or is_system_topic(name) or is_system_group(name):
        return name
    return f"{prefix}{namespace}%{rest}"


def is_creatable_group(group: str) -> bool:
    """Whether a broker makes a group of this name by itself; the empty name is one (rules 6.1)."""
    return len(group) <= CREATED_GROUP_LENGTH_MAX and (not group or _LEGAL.fullmatch(group) is not None)


def is_system_group(group: str) -> bool:
    """Whether RocketMQ itself consumes under this name."""
    return group.startswith(_SYSTEM_GROUP_PREFIX)
