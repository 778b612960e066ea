"""Decides whether a write is exactly once, and checks its server and its topics, before any row is sent."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace

from pyspark_rmqpull.options.sending import AT_LEAST_ONCE, EXACTLY_ONCE, FAIL, ROUND_ROBIN, WARN
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.shared_memory import RouteFiles
from rmqpull_client.errors import BrokerUnavailable, OptionError, RequestRefused, TopicNotFound
from rmqpull_client.transports.choice import get_producer
from rmqpull_client.transports.port import Producer
from rmqpull_client.transports.reached import list_reached, take_over_reached

PLANNING_MAX_MS = 5_000
"""How long a stream that plans a write waits for a server that is away. Spark cannot end a process that plans, so
``query.stop()`` waits for it. It can end tasks, so these wait for the rest of the time."""
_COLUMNS_BY_TYPE = {"FIFO": "messageGroup", "DELAY": "deliveryTimestamp", "PRIORITY": "priority"}
"""The column that makes a row a message of this type."""
_logger = logging.getLogger(__name__)


class Targets:
    """The topics of a task. It asks the server once about each."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._types: dict[str, frozenset[str]] = {}

    def check_target(self, topic: str) -> frozenset[str]:
        """Returns the message types that a topic takes.

        Raises OptionError for a topic that does not exist, cannot be written, or takes none of the sink's types.
        """
        if topic not in self._types:
            try:
                self._types[topic] = self._producer.query_message_types(topic)
            except RequestRefused as refusal:
                advice = self._advise(refusal, topic)
                if advice is None:
                    raise
                raise OptionError(f"Cannot write to topic {topic}: {refusal.args[0].rstrip('.')}. {advice}") from None
            if self._types[topic] == {"TRANSACTION"}:
                raise OptionError(
                    f"Topic {topic} takes only transactional messages, and the sink sends none. Write to a topic of "
                    "another type. (delivery=exactly-once works with all other types.)"
                )
        return self._types[topic]

    def _advise(self, refusal: RequestRefused, topic: str) -> str | None:
        """What to do about a topic that cannot be written."""
        abilities = self._producer.abilities
        if isinstance(refusal, TopicNotFound):
            return f"The sink creates no topics. Create it first: {abilities.create_topic.format(topic=topic)}"
        if refusal.code == "FORBIDDEN":
            return f"Give it write permission: {abilities.allow_writes.format(topic=topic)}"
        return "No topic can have this name. Choose another one." if refusal.code == "ILLEGAL_TOPIC" else None

    def takes_delivery_times(self, topic: str) -> bool:
        """Whether a topic takes delayed messages."""
        return "DELAY" in self.check_target(topic)


def check_targets(producer: Producer, options: SinkOptions, columns: Collection[str]) -> SinkOptions:
    """Checks the server and the topics that options name. Raises OptionError.

    Returns the options with ``delivery`` set, so that all tasks deliver in the same way. ``columns`` are those of the
    rows.
    """
    refuse_unsupported(producer, options)
    if "priority" in columns and not producer.abilities.takes_priorities:
        raise OptionError(
            f"The rows have a column priority, but {producer.abilities.server} takes none. Use a newer rmqpull-broker, "
            "or drop the column."
        )
    if options.topic is not None:
        types = Targets(producer).check_target(options.topic)
        for message_type, column in _COLUMNS_BY_TYPE.items():
            if types == {message_type} and column not in columns:
                raise OptionError(
                    f"Topic {options.topic} takes only {message_type} messages, which need a column {column}."
                )
    dead_letters = options.dead_letter_topic
    if dead_letters is not None and "NORMAL" not in Targets(producer).check_target(dead_letters):
        raise OptionError(
            f"Topic {options.dead_letter_topic} takes no NORMAL messages, and dead letters are NORMAL. Name another "
            "deadLetterTopic."
        )
    return replace(options, delivery=choose_delivery(producer, options))


def check_stream_targets(options: SinkOptions, columns: Collection[str]) -> SinkOptions:
    """Checks the server and the topics of a micro-batch, as :func:`check_targets` does.

    While a server that has answered before is away, nothing is checked: the tasks check it when it is back. Routes of
    topics that an earlier process knew are used here, too: a restarted name server may lack them.
    """
    whole, files = options.connection, RouteFiles()
    topics = [topic for topic in (options.topic, options.dead_letter_topic) if topic]
    if not list_reached(whole, ()).addresses:
        checked = check_targets(get_producer(whole, options.producer_group), options, columns)
        files.keep(whole, topics)
        return checked
    short = replace(whole, request_timeout_ms=min(PLANNING_MAX_MS, whole.request_timeout_ms), server_away_timeout_ms=0)
    recalled = files.recall(whole, topics)
    take_over_reached(short, recalled)
    try:
        checked = check_targets(get_producer(short, options.producer_group), options, columns)
    except BrokerUnavailable as error:
        _logger.info("The tasks check the server and the topics, because the server is away now: %s", error)
        take_over_reached(whole, recalled)
        return options
    take_over_reached(whole, list_reached(short, topics))
    files.keep(short, topics)
    return checked


def choose_delivery(producer: Producer, options: SinkOptions) -> str:
    """Returns the option ``delivery``; without it the best guarantee that the server supports."""
    return options.delivery or (EXACTLY_ONCE if producer.abilities.no_stages is None else AT_LEAST_ONCE)


def refuse_unsupported(producer: Producer, options: SinkOptions) -> None:
    """Raises OptionError for options that the server does not support."""
    abilities = producer.abilities
    server, no_columns, no_stages = abilities.server, abilities.no_columns, abilities.no_stages
    if options.delivery == EXACTLY_ONCE and no_stages is not None:
        raise OptionError(
            f"Option delivery is {EXACTLY_ONCE}, but {server} cannot commit a whole batch: {no_stages}. Use "
            f"rmqpull-broker, or set delivery to {AT_LEAST_ONCE}."
        )
    if options.on_commit_gap == FAIL and not abilities.tells_commit_gaps:
        raise OptionError(
            f"Option onCommitGap is {FAIL}, but {server} does not count missing micro-batches"
            f"{'' if no_stages is None else ': ' + no_stages}. Use a newer rmqpull-broker, or set onCommitGap to "
            f"{WARN}."
        )
    if no_columns is not None and options.queue_selector != ROUND_ROBIN:
        raise OptionError(
            f"Option queueSelector is {options.queue_selector}, but {server} chooses queues itself: {no_columns}. "
            f"Leave it at {ROUND_ROBIN}. Rows with a messageGroup go to the queue of their group."
        )
    if options.min_records_per_queue is not None and not abilities.takes_slice_rows:
        raise OptionError(
            f"Option minRecordsPerQueue is {options.min_records_per_queue}, but requests to {server} cannot say how "
            "many rows go to one queue: only rmqpull-broker takes it. Remove it."
        )
    if options.compress_type not in abilities.compress_types:
        raise OptionError(
            f"Option compressType is {options.compress_type}, but {server} speaks only the standard protocol, which "
            "has only ZLIB. Leave it at ZLIB."
        )
