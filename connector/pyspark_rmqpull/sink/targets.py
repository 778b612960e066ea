"""What the topics and the server of a write can take, asked before rows are sent."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pyspark_rmqpull.options.sending import AT_LEAST_ONCE, EXACTLY_ONCE, ROUND_ROBIN
from pyspark_rmqpull.options.sink import SinkOptions
from rmqpull_client.errors import OptionError, RequestRefused
from rmqpull_client.transports.grpc.producer import Producer

TRANSACTIONS = "stages"
"""The extension that exactly-once needs."""

_ADVICE = {
    "TOPIC_NOT_FOUND": "The sink creates no topic. Create it first, as with: rmqpull-broker topic create {topic}",
    "FORBIDDEN": "Give it write permission, as with: rmqpull-broker topic update {topic} --perm 6",
    "ILLEGAL_TOPIC": "No topic can have this name. Choose another one.",
}
"""What to do about a topic that cannot be written, by the code of the refusal."""


class Targets:
    """The topics of a task, each asked about once."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._types: dict[str, frozenset[str]] = {}

    def check(self, topic: str) -> frozenset[str]:
        """The types of messages that a topic takes. Raises OptionError for one that is missing or takes none of ours,
        for the sink never creates a topic.
        """
        if topic not in self._types:
            try:
                self._types[topic] = self._producer.query_message_types(topic)
            except RequestRefused as refusal:
                if refusal.code not in _ADVICE:
                    raise
                raise OptionError(
                    f"Topic {topic} cannot be written: {refusal.args[0].rstrip('.')}. "
                    f"{_ADVICE[refusal.code].format(topic=topic)}"
                ) from None
            if self._types[topic] == {"TRANSACTION"}:
                raise OptionError(
                    f"Topic {topic} takes transactional messages alone, whose producers are asked after each of them; "
                    "the sink sends none. Write to a topic of another type: delivery=exactly-once is a transaction."
                )
        return self._types[topic]

    def takes_delivery_times(self, topic: str) -> bool:
        """Whether a topic takes delayed messages."""
        return "DELAY" in self.check(topic)


def checked(producer: Producer, options: SinkOptions, columns: Collection[str]) -> SinkOptions:
    """The options of a write with ``delivery`` settled, so that all of its tasks do the same; ``columns`` are those of
    its rows. Looks at the server and at the topics that options name, before any row is sent. Raises OptionError.
    """
    refuse_unsupported(producer, options)
    if options.topic is not None:
        types = Targets(producer).check(options.topic)
        for kind, column in (("FIFO", "messageGroup"), ("DELAY", "deliveryTimestamp")):
            if types == {kind} and column not in columns:
                raise OptionError(f"Topic {options.topic} takes {kind} messages alone, which need a column {column}.")
    if options.dead_letter_topic is not None and "NORMAL" not in Targets(producer).check(options.dead_letter_topic):
        raise OptionError(
            f"Topic {options.dead_letter_topic} takes no NORMAL messages, and dead letters are such. Name another "
            "deadLetterTopic."
        )
    return replace(options, delivery=settled_delivery(producer, options))


def settled_delivery(producer: Producer, options: SinkOptions) -> str:
    """What ``delivery`` says, or the best that the server has."""
    return options.delivery or (EXACTLY_ONCE if TRANSACTIONS in producer.extensions else AT_LEAST_ONCE)


def refuse_unsupported(producer: Producer, options: SinkOptions) -> None:
    """Raises OptionError for options that the server cannot follow."""
    extensions = producer.extensions
    if options.delivery == EXACTLY_ONCE and TRANSACTIONS not in extensions:
        raise OptionError(
            f"Option delivery is {EXACTLY_ONCE}, and the server at {producer.endpoints} has no transactions over whole "
            f"batches (extension {TRANSACTIONS} of rmqpull.v1). Use rmqpull-broker, or {AT_LEAST_ONCE}."
        )
    if "columns" not in extensions and options.queue_selector != ROUND_ROBIN:
        raise OptionError(
            f"Option queueSelector is {options.queue_selector}, and the server at {producer.endpoints} chooses queues "
            f"by itself: it has no extension columns of rmqpull.v1. Leave it at {ROUND_ROBIN}; rows with a "
            "messageGroup go to the queue of their group."
        )
    if "columns" not in extensions and options.compress_type != "ZLIB":
        raise OptionError(
            f"Option compressType is {options.compress_type}, and the standard protocol at {producer.endpoints} knows "
            "ZLIB alone. Leave it at ZLIB."
        )
