"""Finds the selected topics and queues that exist now."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from pyspark_rmqpull.errors import RequestRefused, TopicMissing
from pyspark_rmqpull.planning.topics import TopicSelection, list_queues
from rmqpull_client.light_queues import is_light
from rmqpull_client.model import MessageQueue, TopicBounds
from rmqpull_client.transports.port import BrokerClient

_PLACES_MAX = 5


def find_topics(
    client: BrokerClient, selection: TopicSelection, known: Collection[MessageQueue], query_id: str | None
) -> dict[str, TopicBounds]:
    """Returns the selected topics that exist now, each with its selected queues.

    Called at every trigger, so that the query finds new topics, queues and brokers. ``known`` are the queues that the
    query has read before: if one of them no longer exists, that is a loss, and not an error here. But one that exists
    and may not be read now is an error, because its messages are still there. With ``query_id`` the broker also returns
    the number of rows that this query has reported as lost. Raises TopicMissing for a named topic or queue that never
    existed or cannot be read, OptionError for a pattern when the server cannot list its topics, and RequestRefused for
    a known or a named queue that may not be read now.
    """
    if selection.pattern is not None:
        topics = client.query_bounds(selection.match(client.list_topics()), query_id)
        _refuse_unreadable(client, topics, selection, known)
        return topics
    topics = client.query_bounds(selection.required_names, query_id)
    _refuse_unreadable(client, topics, selection, known)
    known_topics = {queue.topic for queue in known}
    if missing := [name for name in selection.required_names if name not in topics and name not in known_topics]:
        if light := list(filter(is_light, missing)):
            raise TopicMissing(
                f"The parent topic of light message queue {', '.join(light)} does not exist at {client.endpoints}. "
                "Create it, or correct option parentTopic or the name of the lite topic."
            )
        raise TopicMissing(
            f"Topic {', '.join(missing)} does not exist at {client.endpoints}. "
            f"Create it, or name another in option {'assign' if selection.queues else 'topic'}."
        )
    if selection.queues:
        return _keep_assigned(topics, selection, known)
    if unreadable := [name for name in selection.names if name not in known_topics and not topics[name].queues]:
        raise TopicMissing(
            f"Topic {', '.join(unreadable)} at {client.endpoints} has no queue that can be read. Make it readable "
            "(perm 6 allows reading and writing), or name another in option topic."
        )
    return topics


def _refuse_unreadable(
    client: BrokerClient,
    topics: Mapping[str, TopicBounds],
    selection: TopicSelection,
    known: Collection[MessageQueue],
) -> None:
    wanted = {queue for queue in known if selection.covers(queue)} | selection.queues
    unreadable = sorted({queue for topic in topics.values() for queue in topic.unreadable if queue in wanted})
    if not unreadable:
        return
    first = unreadable[0]
    places = sorted({f"{queue.topic} on broker {queue.broker_name}" for queue in unreadable})
    more = f", and {len(places) - _PLACES_MAX} more" if len(places) > _PLACES_MAX else ""
    raise RequestRefused(
        "NO_PERMISSION",
        f"The cluster at {client.endpoints} does not allow reading topic {', topic '.join(places[:_PLACES_MAX])}{more} "
        f"({len(unreadable)} of the query's queues, the first is {first}). The query stops, because it would skip "
        "their messages. Make the topic readable again, for example with `mqadmin updateTopicPerm -n NAME_SERVER -b "
        f"BROKER_ADDRESS -t {first.topic} -p 6`, check that brokerPermission of the broker is 6 or 4, and restart the "
        "query from its checkpoint.",
    )


def _keep_assigned(
    topics: Mapping[str, TopicBounds], selection: TopicSelection, known: Collection[MessageQueue]
) -> dict[str, TopicBounds]:
    existing = list_queues(topics).keys()
    if missing := sorted(selection.queues - existing - set(known)):
        raise TopicMissing(
            f"Option assign names {', '.join(map(str, missing))}, which does not exist. "
            f"There are {', '.join(map(str, sorted(existing)))}."
        )
    return {
        name: replace(topic, queues={queue: at for queue, at in topic.queues.items() if queue in selection.queues})
        for name, topic in topics.items()
    }
