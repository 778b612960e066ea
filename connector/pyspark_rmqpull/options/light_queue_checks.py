"""Which options contradict each other about light message queues and lite topics: the rules of ``cross_checks``."""

from __future__ import annotations

from pyspark_rmqpull.options.connection import ConnectionOptions
from pyspark_rmqpull.options.declaration import Given
from pyspark_rmqpull.options.selection import SelectionOptions
from pyspark_rmqpull.options.sending import SendingOptions
from rmqpull_client.errors import OptionError
from rmqpull_client.light_queues import LIGHT_PREFIX, find_parent, is_light

_OPTIONS = ("liteTopics", "parentTopic")


def refuse_stray_light_queues(given: Given, options: SelectionOptions) -> None:
    """Lite topics need one parent topic, light message queues need theirs to be named, and no server lists either."""
    if "liteTopics" in given:
        if "topic" not in given or len(options.topic or ()) != 1:
            raise OptionError(
                "Option liteTopics names lite topics of one topic. Name that topic, and no other, with option topic."
            )
        if is_light(options.topic[0] if options.topic else ""):
            raise OptionError(
                "Options liteTopics and topic both name light message queues. Set topic to the name of the topic of "
                "type LITE, or remove liteTopics."
            )
    if (options.topic_pattern or "").startswith(LIGHT_PREFIX):
        raise OptionError(
            f"Option topicPattern is {options.topic_pattern!r}, but servers do not list light message queues as "
            "topics. Name them with option topic, or lite topics with option liteTopics."
        )
    names = [name for name in options.selection.required_names if is_light(name)]
    unknown = [name for name in names if find_parent(name) is None]
    if unknown and not options.parent_topic:
        raise OptionError(
            f"Option parentTopic is missing: {unknown[0]} is a light message queue, which has no route of its own. "
            "Name the topic that its messages are sent to."
        )
    if "parentTopic" in given and (not unknown or is_light(options.parent_topic)):
        raise OptionError(
            f"Option parentTopic is {options.parent_topic}. It must be an ordinary topic, and option topic or assign "
            f"must name light message queues {LIGHT_PREFIX}NAME that its brokers store; lite topics need no "
            "parentTopic. Remove it, or name such queues and an ordinary topic as their parent."
        )
    if others := [queue for queue in options.selection.queues if is_light(queue.topic) and queue.queue_id]:
        raise OptionError(
            f"Option assign names {min(others)}, but a light message queue has queue 0 only, on each broker of its "
            "parent topic."
        )


def refuse_light_queues_elsewhere(given: Given, options: ConnectionOptions) -> None:
    """Only Apache's brokers have light message queues, and no namespace has them."""
    assert isinstance(options, SelectionOptions), "checks of the source"
    names = [name for name in options.selection.required_names if is_light(name)]
    if not names and not any(name in given for name in _OPTIONS):
        return
    what = f"{names[0]}, a light message queue" if names else "light message queues"
    if "nameServers" not in given:
        raise OptionError(f"Options ask for {what}. Only the brokers of a cluster have them: set nameServers.")
    if "namespace" in given:
        raise OptionError(f"Options ask for {what}, which cannot be in a namespace. Remove option namespace.")


def refuse_writes_to_light_queues(given: Given, options: SendingOptions) -> None:
    """A message gets into a light message queue by a property, and is sent to its parent topic."""
    for name, topic in (("topic", options.topic), ("deadLetterTopic", options.dead_letter_topic)):
        if topic is not None and is_light(topic):
            raise OptionError(
                f"Option {name} is {topic}, a light message queue. The sink cannot write to them: name a topic."
            )
