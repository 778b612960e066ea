"""Checks whether the server and the topics of a write can take it, before any row is sent."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pyspark_rmqpull.options.sending import AT_LEAST_ONCE, EXACTLY_ONCE, ROUND_ROBIN
from pyspark_rmqpull.options.sink import SinkOptions
from rmqpull_client.errors import OptionError, RequestRefused
from rmqpull_client.transports.port import Producer

STAGES, COLUMNS = "stages", "columns"
"""Extensions of a server: exactly-once needs the first; sending in columns needs the second."""

_ADVICE = {
    "TOPIC_NOT_FOUND": "The sink creates no topics. Create it first: rmqpull-broker topic create {topic}",
    "FORBIDDEN": "Give it write permission: rmqpull-broker topic update {topic} --perm 6",
    "ILLEGAL_TOPIC": "No topic can have this name. Choose another one.",
}
"""What to do about a topic that cannot be written, by the code of the refusal."""


class Targets:
    """The topics of a task. It asks the server once about each."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._types: dict[str, frozenset[str]] = {}

    def check(self, topic: str) -> frozenset[str]:
        """Returns the message types that a topic takes.

        Raises OptionError for a topic that does not exist, that cannot be written, or that takes no type of the sink's.
        """
        if topic not in self._types:
            try:
                self._types[topic] = self._producer.query_message_types(topic)
            except RequestRefused as refusal:
                if refusal.code not in _ADVICE:
                    raise
                advice = _ADVICE[refusal.code].format(topic=topic)
                raise OptionError(f"Cannot write to topic {topic}: {refusal.args[0].rstrip('.')}. {advice}") from None
            if self._types[topic] == {"TRANSACTION"}:
                raise OptionError(
                    f"Topic {topic} takes only transactional messages, and the sink sends none. Write to a topic of "
                    "another type. (delivery=exactly-once works with all other types.)"
                )
        return self._types[topic]

    def takes_delivery_times(self, topic: str) -> bool:
        """Whether a topic takes delayed messages."""
        return "DELAY" in self.check(topic)


def check_targets(producer: Producer, options: SinkOptions, columns: Collection[str]) -> SinkOptions:
    """Checks the server and the topics that options name. Raises OptionError.

    Returns the options with ``delivery`` set, so that all tasks deliver in the same way. ``columns`` are those of the
    rows.
    """
    refuse_unsupported(producer, options)
    if options.topic is not None:
        types = Targets(producer).check(options.topic)
        for message_type, column in (("FIFO", "messageGroup"), ("DELAY", "deliveryTimestamp")):
            if types == {message_type} and column not in columns:
                raise OptionError(
                    f"Topic {options.topic} takes only {message_type} messages, which need a column {column}."
                )
    if options.dead_letter_topic is not None and "NORMAL" not in Targets(producer).check(options.dead_letter_topic):
        raise OptionError(
            f"Topic {options.dead_letter_topic} takes no NORMAL messages, and dead letters are NORMAL. Name another "
            "deadLetterTopic."
        )
    return replace(options, delivery=choose_delivery(producer, options))


def choose_delivery(producer: Producer, options: SinkOptions) -> str:
    """Returns the option ``delivery``; without it the best guarantee that the server supports."""
    return options.delivery or (EXACTLY_ONCE if STAGES in producer.extensions else AT_LEAST_ONCE)


def refuse_unsupported(producer: Producer, options: SinkOptions) -> None:
    """Raises OptionError for options that the server does not support."""
    extensions, server = producer.extensions, f"the server at {producer.endpoints}"
    if options.delivery == EXACTLY_ONCE and STAGES not in extensions:
        raise OptionError(
            f"Option delivery is {EXACTLY_ONCE}, but {server} cannot commit a whole batch: it has no extension "
            f"{STAGES} of rmqpull.v1. Use rmqpull-broker, or set delivery to {AT_LEAST_ONCE}."
        )
    if COLUMNS not in extensions and options.queue_selector != ROUND_ROBIN:
        raise OptionError(
            f"Option queueSelector is {options.queue_selector}, but {server} chooses queues itself: it has no "
            f"extension {COLUMNS} of rmqpull.v1. Leave it at {ROUND_ROBIN}. Rows with a messageGroup go to the queue "
            "of their group."
        )
    if COLUMNS not in extensions and options.compress_type != "ZLIB":
        raise OptionError(
            f"Option compressType is {options.compress_type}, but {server} speaks only the standard protocol, which "
            "has only ZLIB. Leave it at ZLIB."
        )
