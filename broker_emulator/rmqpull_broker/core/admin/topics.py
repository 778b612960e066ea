"""Commands on topics (rules 3.9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rmqpull_broker.core.admin.naming import check_topic_name, check_topic_spelling, is_system_topic
from rmqpull_broker.core.errors import BadRequest, IllegalTopic, TopicNotFound
from rmqpull_broker.core.limits import QUEUES_MAX
from rmqpull_broker.core.model import PERM_INHERIT, PERM_READ, PERM_WRITE, TopicConfig, TopicType
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import TopicDeleted, TopicPut
from rmqpull_broker.core.state.system_topics import TBW102

PERM_MAX = 7


def create_topic(draft: Draft, topic: TopicConfig) -> None:
    """Creates a topic; one that exists with the same queues and type is left as it is.

    Raises IllegalTopic for a bad name, BadRequest for a bad number of queues or another shape than the existing.
    """
    check_topic_name(topic.name)
    _check(draft, topic)
    existing = draft.find_topic(topic.name)
    if existing is None:
        draft.add(TopicPut(topic))
    elif _shape(existing) != _shape(topic):
        raise BadRequest(
            f"topic {topic.name} exists with {_described(existing)}, asked for were {_described(topic)}; "
            "ask for the same, or change it with 'topic update'"
        )


def put_topic(draft: Draft, topic: TopicConfig) -> TopicConfig:
    """Creates or changes a topic, as UPDATE_AND_CREATE_TOPIC does, and gives it back as it is now.

    A change keeps the topic's creation id and its messages, also those of queues that it no longer has. Raises
    IllegalTopic and BadRequest (rules 3.9.3).
    """
    check_topic_spelling(topic.name)
    _refuse_system_topic(draft, topic.name)
    _check(draft, topic)
    existing = draft.find_topic(topic.name)
    if existing is not None:
        topic = replace(topic, creation_id=existing.creation_id)
    if topic != existing:
        draft.add(TopicPut(topic))
    return topic


def delete_topic(draft: Draft, name: str) -> None:
    """Deletes a topic with its messages and every group's offsets on it. Raises TopicNotFound, or IllegalTopic."""
    _refuse_system_topic(draft, name)
    if draft.find_topic(name) is None:
        raise TopicNotFound(f"topic[{name}] not exist, nothing to delete")
    draft.add(TopicDeleted(name))


def create_on_send(
    draft: Draft, name: str, default_topic: str, queue_nums: int, new_id: Callable[[], str]
) -> TopicConfig | None:
    """The topic that a send to an unknown topic creates, or None (rules 3.9.3, createTopicInSendMessage).

    ``default_topic`` is the topic whose permission is inherited, normally TBW102; ``queue_nums`` what the client asks;
    ``new_id`` gives the creation id.
    """
    default = draft.find_topic(default_topic)
    if default is None or not default.perm & PERM_INHERIT:
        return None
    if default_topic == TBW102 and not draft.properties.auto_create_topic_enable:
        return None
    queues = max(0, min(queue_nums, default.write_queue_nums))
    topic = TopicConfig(name, queues, queues, TopicType.NORMAL, new_id(), default.perm & ~PERM_INHERIT)
    draft.add(TopicPut(topic))
    return topic


def ensure_retry_topic(draft: Draft, name: str, queue_nums: int, new_id: Callable[[], str]) -> TopicConfig:
    """A ``%RETRY%`` or ``%DLQ%`` topic, created when missing (createTopicInSendMessageBackMethod)."""
    topic = draft.find_topic(name)
    if topic is None:
        topic = TopicConfig(name, queue_nums, queue_nums, TopicType.NORMAL, new_id(), PERM_READ | PERM_WRITE)
        draft.add(TopicPut(topic))
    return topic


def _refuse_system_topic(draft: Draft, name: str) -> None:
    if is_system_topic(name) or name in draft.state.system_topics:
        raise IllegalTopic(f"The topic[{name}] is conflict with system topic.")


def _check(draft: Draft, topic: TopicConfig) -> None:
    for count in (topic.read_queue_nums, topic.write_queue_nums):
        if not 1 <= count <= QUEUES_MAX:
            raise BadRequest(f"topic {topic.name} needs 1 to {QUEUES_MAX} queues, got {count}")
    if not 0 <= topic.perm <= PERM_MAX:
        raise BadRequest(f"topic {topic.name} has the permission {topic.perm}: expected 0 to {PERM_MAX}")
    if topic.topic_type is TopicType.MIXED and not draft.properties.enable_mixed_message_type:
        raise BadRequest("MIXED message type is not supported.")


def _shape(topic: TopicConfig) -> tuple[int, int, TopicType]:
    return topic.read_queue_nums, topic.write_queue_nums, topic.topic_type


def _described(topic: TopicConfig) -> str:
    read, write, topic_type = _shape(topic)
    queues = f"{read}" if read == write else f"{read} read and {write} write"
    return f"{queues} queues of type {topic_type.value}"
