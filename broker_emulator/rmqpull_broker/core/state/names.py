"""Names: those that topics and consumer groups may have, and the system topics of every broker.

Rules 3.9.2 and 5.5; rules 6.1 (observed) override both.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from rmqpull_broker.core.errors import IllegalConsumerGroup, IllegalTopic
from rmqpull_broker.core.model import PERM_INHERIT, PERM_READ, PERM_WRITE, TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_proto.names import (
    BENCHMARK_TOPIC,
    CHECK_MAX_TIME_TOPIC,
    DLQ_PREFIX,
    HALF_TOPIC,
    OFFSET_MOVED_EVENT,
    OP_HALF_TOPIC,
    REPLY_SUFFIX,
    RETRY_PREFIX,
    ROCKSDB_HALF_TOPICS,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_TOPIC_PREFIX,
    SYSTEM_TOPICS,
    TBW102,
    TIMER_TOPIC,
)

TOPIC_LENGTH_MAX = 127
RETRY_TOPIC_LENGTH_MAX = 255
"""The limit for ``%RETRY%`` and ``%DLQ%`` topics."""
GROUP_LENGTH_MAX = 120

DELAY_TOPICS = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC})
"""Topics in which delayed messages wait. No message is read before it is due."""
WAITING_TOPICS = DELAY_TOPICS | {HALF_TOPIC}
"""Topics in which delayed and half messages wait. They are never deleted."""
STAGE_PREFIX = "%STAGE%"
"""The prefix of the hidden topics of stages. Clients may not use such names."""

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")
_LEGAL_TEXT = "^[%|a-zA-Z0-9_-]+$"
_SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"


def name_pop_retry_topic(group: str, topic: str) -> str:
    """Returns the retry topic for messages of ``topic`` that a group did not acknowledge in time (rules 3.17).

    A message of a retry topic goes back to the same topic.
    """
    return topic if topic.startswith(RETRY_PREFIX) else f"{RETRY_PREFIX}{group}_{topic}"


def find_dead_letters_group(topic: str) -> str | None:
    """Returns the group whose dead letters are in a topic, or None for any other topic."""
    return topic[len(DLQ_PREFIX) :] if topic.startswith(DLQ_PREFIX) else None


def is_among(topic: str, group: str, topics: Collection[str]) -> bool:
    """Returns whether a topic is one of ``topics``, or a group's retry topic of one. An empty collection means all."""
    return not topics or topic in topics or topic.removeprefix(name_pop_retry_topic(group, "")) in topics


def check_topic_name(topic: str) -> None:
    """Raises IllegalTopic, with RocketMQ's text, unless clients may use a topic of this name."""
    check_topic_spelling(topic)
    if is_system_topic(topic):
        raise IllegalTopic("cannot access system topic")


def check_topic_of_client(topic: str) -> None:
    """Raises IllegalTopic, with the texts of Apache's proxy, unless its clients may use a topic of this name."""
    if not topic.strip():
        raise IllegalTopic("The specified topic is blank")
    if not _LEGAL.fullmatch(topic):
        raise IllegalTopic(f"The specified topic[{topic}] contains illegal characters, allowing only {_LEGAL_TEXT}")
    if len(topic) > TOPIC_LENGTH_MAX:
        raise IllegalTopic(f"The specified topic is longer than topic max length {TOPIC_LENGTH_MAX}.")
    check_topic_name(topic)


def check_topic_spelling(topic: str) -> None:
    """Raises IllegalTopic unless a broker accepts the name. Names of system topics are accepted."""
    if not topic.strip():
        raise IllegalTopic("The specified topic is blank.")
    if not _LEGAL.fullmatch(topic):
        raise IllegalTopic(f"The specified topic: {topic}, contains illegal characters, allowing only {_LEGAL_TEXT}")
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        if len(topic) > RETRY_TOPIC_LENGTH_MAX:
            raise IllegalTopic(
                f"The specified topic is DLQ or Retry topic: {topic}, and it's longer than topic max length: "
                f"{RETRY_TOPIC_LENGTH_MAX}"
            )
    elif len(topic) > TOPIC_LENGTH_MAX:
        raise IllegalTopic(f"The specified topic: {topic}, is longer than topic max length: {TOPIC_LENGTH_MAX}")


def is_system_topic(topic: str) -> bool:
    """Whether RocketMQ, on any broker, or this broker uses the topic itself."""
    return topic in SYSTEM_TOPICS or topic.startswith((SYSTEM_TOPIC_PREFIX, STAGE_PREFIX))


def list_reserved_topics() -> frozenset[str]:
    """Returns the names of the topics that RocketMQ uses on any broker."""
    return SYSTEM_TOPICS


def check_group_spelling(group: str) -> None:
    """Raises IllegalConsumerGroup unless a broker accepts the name. Names of system groups are accepted."""
    if not group.strip():
        raise IllegalConsumerGroup("The specified group is blank.")
    if not _LEGAL.fullmatch(group):
        raise IllegalConsumerGroup(
            f"The specified group: {group}, contains illegal characters, allowing only {_LEGAL_TEXT}"
        )
    if len(group) > GROUP_LENGTH_MAX:
        raise IllegalConsumerGroup(f"The specified group: {group}, is longer than group max length: {GROUP_LENGTH_MAX}")


def check_group_name(group: str) -> None:
    """Raises IllegalConsumerGroup, with RocketMQ's text, unless clients may use a group of this name."""
    check_group_spelling(group)
    if is_system_group(group):
        raise IllegalConsumerGroup("cannot use system consumer group")


def check_group_of_client(group: str) -> None:
    """Raises IllegalConsumerGroup, with the texts of Apache's proxy, unless its clients may use this group name."""
    if not group.strip():
        raise IllegalConsumerGroup("the specified group is blank")
    if not _LEGAL.fullmatch(group):
        raise IllegalConsumerGroup(
            f"the specified group[{group}] contains illegal characters, allowing only {_LEGAL_TEXT}"
        )
    if len(group) > GROUP_LENGTH_MAX:
        raise IllegalConsumerGroup(f"the specified group[{group}] is longer than group max length: {GROUP_LENGTH_MAX}.")
    if is_system_group(group):
        raise IllegalConsumerGroup("cannot use system consumer group")


def is_creatable_group(group: str) -> bool:
    """Whether a broker creates a group of this name by itself."""
    return len(group) <= GROUP_LENGTH_MAX and _LEGAL.fullmatch(group) is not None


def is_system_group(group: str) -> bool:
    """Whether RocketMQ itself consumes with this group."""
    return group.startswith(_SYSTEM_GROUP_PREFIX)


def add_namespace(namespace: str, name: str) -> str:
    """Returns the name that brokers use: ``shop%orders``, or ``%RETRY%shop%billing`` for a retry topic.

    A name that already has the namespace does not change, nor does a system topic or system group.
    """
    prefix = next((prefix for prefix in (RETRY_PREFIX, DLQ_PREFIX) if name.startswith(prefix)), "")
    rest = name.removeprefix(prefix)
    if not (namespace and name) or rest.startswith(f"{namespace}%") or is_system_topic(name) or is_system_group(name):
        return name
    return f"{prefix}{namespace}%{rest}"


_RW = PERM_READ | PERM_WRITE
_RWX = _RW | PERM_INHERIT


def make_system_topics(properties: BrokerProperties, broker_names: Sequence[str]) -> dict[str, TopicConfig]:
    """Returns the system topics of a broker with these properties, by name."""
    cluster = properties.broker_cluster_name
    topics = [
        (SELF_TEST_TOPIC, 1, _RW),
        (BENCHMARK_TOPIC, 1024, _RW),
        (cluster, 16, _RWX),
        *((name, 1, _RWX) for name in broker_names),
        (OFFSET_MOVED_EVENT, 1, _RW),
        (SCHEDULE_TOPIC, len(properties.message_delay_level.split()), _RW),
        (f"{cluster}{REPLY_SUFFIX}", 1, _RW),
        (f"{SYSTEM_TOPIC_PREFIX}REVIVE_LOG_{cluster}", 8, _RW),
        (HALF_TOPIC, 1, _RW),
        (OP_HALF_TOPIC, 1, _RW),
        *((name, 1, _RW) for name in ROCKSDB_HALF_TOPICS),
        (CHECK_MAX_TIME_TOPIC, 1, _RW),
        *((f"{SYSTEM_TOPIC_PREFIX}SYNC_BROKER_MEMBER_{name}", 1, PERM_INHERIT) for name in broker_names),
    ]
    if properties.auto_create_topic_enable:
        topics.append((TBW102, properties.default_topic_queue_nums, _RWX))
    if properties.timer_wheel_enable:
        topics.append((TIMER_TOPIC, 1, _RW))
    return {name: TopicConfig(name, queues, queues, perm=perm, creation_id="system") for name, queues, perm in topics}
