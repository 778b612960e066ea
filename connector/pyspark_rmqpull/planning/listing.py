"""The topics of a query and their queues, as the broker lists them."""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_client.model import Bounds, MessageQueue, TopicBounds


def queues_of(topics: Mapping[str, TopicBounds]) -> dict[MessageQueue, Bounds]:
    """The bounds of all queues of all topics."""
    return {queue: bounds for topic in topics.values() for queue, bounds in topic.queues.items()}


def creation_ids_of(topics: Mapping[str, TopicBounds]) -> dict[str, str]:
    """The creation ids of the topics that have one."""
    return {name: topic.creation_id for name, topic in topics.items() if topic.creation_id is not None}
