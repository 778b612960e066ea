"""The topics of a query and their queues, as the broker lists them."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_rmqpull.client import BrokerClient
from pyspark_rmqpull.errors import OptionError
from pyspark_rmqpull.model import Bounds, MessageQueue, TopicBounds
from pyspark_rmqpull.options import SourceOptions


def existing_topics(client: BrokerClient, options: SourceOptions) -> dict[str, TopicBounds]:
    """The query's topics with their bounds. Raises OptionError for one that does not exist, BrokerUnavailable."""
    topics = client.bounds([options.topic])
    if options.topic not in topics:
        raise OptionError(
            f"Topic {options.topic} does not exist at {options.endpoints}. Create it, or name another in option topic."
        )
    return topics


def queues_of(topics: Mapping[str, TopicBounds]) -> dict[MessageQueue, Bounds]:
    """The bounds of all queues of all topics."""
    return {queue: bounds for topic in topics.values() for queue, bounds in topic.queues.items()}


def creation_ids_of(topics: Mapping[str, TopicBounds]) -> dict[str, str]:
    """The creation ids of the topics that have one."""
    return {name: topic.creation_id for name, topic in topics.items() if topic.creation_id is not None}
