"""What of a selection exists now: asked at every trigger, so that new topics, queues and brokers are found."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from pyspark_rmqpull.planning.selection import TopicSelection
from rmqpull_client.errors import TopicMissing
from rmqpull_client.model import MessageQueue, TopicBounds
from rmqpull_client.transports.port import BrokerClient


def find_topics(
    client: BrokerClient, selection: TopicSelection, known: Collection[MessageQueue], query_id: str | None
) -> dict[str, TopicBounds]:
    """The selected topics that exist, each with its selected queues.

    ``known`` are queues that the query has read before: that one of them is missing is a loss, and not said here.
    ``query_id`` asks for the rows that it has reported lost.
    Raises TopicMissing for a topic or queue that is named and never was there, and OptionError for a pattern at a
    server that cannot list its topics.
    """
    if selection.pattern is not None:
        return client.query_bounds(selection.matching(client.list_topics()), query_id)
    topics = client.query_bounds(selection.wanted_names, query_id)
    read_before = {queue.topic for queue in known}
    if missing := [name for name in selection.wanted_names if name not in topics and name not in read_before]:
        raise TopicMissing(
            f"Topic {', '.join(missing)} does not exist at {client.endpoints}. "
            f"Create it, or name another in option {'assign' if selection.queues else 'topic'}."
        )
    return _assigned(topics, selection, known) if selection.queues else topics


def _assigned(
    topics: Mapping[str, TopicBounds], selection: TopicSelection, known: Collection[MessageQueue]
) -> dict[str, TopicBounds]:
    existing = {queue for topic in topics.values() for queue in topic.queues}
    if missing := sorted(selection.queues - existing - set(known)):
        raise TopicMissing(
            f"Option assign names {', '.join(map(str, missing))}, which does not exist. "
            f"There are {', '.join(map(str, sorted(existing)))}."
        )
    return {
        name: replace(topic, queues={queue: at for queue, at in topic.queues.items() if queue in selection.queues})
        for name, topic in topics.items()
    }
