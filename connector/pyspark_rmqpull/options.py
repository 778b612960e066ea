"""The options of the source: one declaration each, from which checks and the README's table are made."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark_rmqpull.allocation.choice import Allocation, choose, refuse_stray
from pyspark_rmqpull.allocation.machine_room import MachineRoomResolver
from pyspark_rmqpull.allocation_options import ALLOCATION_OPTIONS
from pyspark_rmqpull.ending import refuse_start_after_end
from pyspark_rmqpull.errors import OptionError
from pyspark_rmqpull.filters import SQL92, MessageFilter, parse_filter_type
from pyspark_rmqpull.model import MessageQueue
from pyspark_rmqpull.option import Mode, Option, integer
from pyspark_rmqpull.position_options import POSITION_OPTIONS
from pyspark_rmqpull.positions import EARLIEST, GROUP, LATEST, Positions, Ranked, everything, spelled
from pyspark_rmqpull.selection import TopicSelection, parse_assign, parse_pattern, parse_topics
from pyspark_rmqpull.starting import Starting

DERIVED_GROUP = "rmqpull-spark-source"
"""The consumer group in whose name a query without one pulls; nothing is committed for it."""

BODIES_UNPACKED, BODIES_RAW_IF_DAMAGED, BODIES_RAW = "unpacked", "rawIfDamaged", "raw"
"""Values of option ``bodies``."""

_ADDED_BY_SPARK = frozenset({"checkpointlocation", "queryname"})
_TOPIC_CHOICES = ("topic", "topicPattern", "assign")
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("Expected true or false.")
    return text.strip().lower() == "true"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _body_mode(text: str) -> str:
    modes = {mode.lower(): mode for mode in (BODIES_UNPACKED, BODIES_RAW_IF_DAMAGED, BODIES_RAW)}
    if text.strip().lower() not in modes:
        raise ValueError(f"Expected {', '.join(modes.values())}.")
    return modes[text.strip().lower()]


def _endpoints(text: str) -> str:
    host, _, port = text.strip().rpartition(":")
    if (
        not host
        or not (port.isascii() and port.isdecimal())
        or not 0 < int(port) <= 65_535
        or re.search(r"[\s,;/]", text.strip())
    ):
        raise ValueError("Expected one HOST:PORT, such as 127.0.0.1:8081.")
    return text.strip()


def _name(length_max: int) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if not _NAME.fullmatch(text) or len(text) > length_max:
            raise ValueError(f"Expected 1 to {length_max} of the characters a-z A-Z 0-9 _ - % |.")
        return text

    return parse


OPTIONS = (
    Option("endpoints", None, "host:port", "Where the broker listens.", _endpoints, is_required=True),
    Option(
        "topic",
        None,
        "names",
        "What to read: topics with commas between, all of their queues. Exactly one of `topic`, `topicPattern` and "
        "`assign` must be given.",
        parse_topics,
    ),
    Option(
        "topicPattern",
        None,
        "regular expression",
        "All topics whose whole name matches, looked for at every trigger: one that is created later is read from its "
        "beginning. Retry and dead-letter topics only match a pattern that begins with `%`. "
        "Needs a server that lists its topics.",
        parse_pattern,
    ),
    Option("assign", None, "JSON", 'Only these queues: `{"orders":{"broker-a":[0,1]}}`.', parse_assign),
    Option(
        "columns",
        None,
        "names",
        "Columns of the row with commas between, in this order; only these travel. A schema of your own does the same.",
        _names,
    ),
    Option(
        "bodies",
        BODIES_UNPACKED,
        "word",
        "Bodies that their producers compressed (zlib, gzip, LZ4, zstd): `unpacked`, where one that cannot be ends the "
        "query; `rawIfDamaged`, where such a one is given as it was sent, and logged; or `raw`, all as they were sent.",
        _body_mode,
    ),
    Option(
        "filterExpression",
        "*",
        "expression",
        "Which messages are read, evaluated by the broker: tags as `paid || sent`, `*` for all, or a SQL92 condition "
        "over message properties. `maxOffsetsPerTrigger` and offsets count messages that are passed over, too.",
        str,
    ),
    Option("filterType", "TAG", "TAG, SQL92", "How `filterExpression` is read.", parse_filter_type),
    Option(
        "consumerGroup",
        None,
        "name",
        "Group whose offsets follow the query, micro-batch by micro-batch; without one nothing is committed.",
        _name(120),
    ),
    *POSITION_OPTIONS,
    Option(
        "failOnDataLoss",
        "true",
        "true, false",
        "Whether a query ends whose messages are gone. With `false` it goes on from the earliest that is left, never "
        "gives a row twice, and reports what is missing.",
        _boolean,
    ),
    Option(
        "maxOffsetsPerTrigger",
        None,
        "messages",
        "About how many messages a micro-batch takes, shared among queues in proportion to what waits in them, rounded "
        "down, but at least one from each queue that has any.",
        integer(1, 2**63 - 1),  # Spark hands the limit through a Java long
        only=Mode.STREAM,
    ),
    *ALLOCATION_OPTIONS,
    Option(
        "idleWaitMs",
        "500",
        "ms",
        "How long an idle query waits on the broker for news before Spark asks again; 0 never waits. "
        "It holds up the query's other sources as long.",
        integer(0, 60_000),
        only=Mode.STREAM,
    ),
    Option(
        "requestTimeoutMs",
        "10000",
        "ms",
        "How long one request to the broker may take, retries included: a broker that restarts within is not noticed.",
        integer(1, 3_600_000),
    ),
    Option(
        "pullBatchSize",
        "32",
        "messages",
        "Messages per pull on a server without the columnar extension; others are read in batches of 10,000.",
        integer(1, 1024),
    ),
)


@dataclass(frozen=True)
class SourceOptions:
    """The options of one query, checked. Field names are those of the options in Python's spelling."""

    endpoints: str
    topic: tuple[str, ...] | None
    topic_pattern: str | None
    assign: frozenset[MessageQueue] | None
    columns: tuple[str, ...] | None
    bodies: str
    filter_expression: str
    filter_type: str
    consumer_group: str | None
    starting_offsets: Positions | None
    starting_offsets_default: Positions | None
    starting_timestamp: Positions | None
    starting_offsets_by_timestamp: Positions | None
    starting_offsets_by_timestamp_strategy: str
    consume_from_where: str
    consume_timestamp: int | None
    ending_offsets: Positions | None
    ending_timestamp: Positions | None
    ending_offsets_by_timestamp: Positions | None
    fail_on_data_loss: bool
    max_offsets_per_trigger: int | None
    num_partitions: int | None
    allocate_strategy: str
    consumer_ids: tuple[str, ...] | None
    message_queue_list: tuple[tuple[MessageQueue, ...], ...] | None
    consumeridcs: tuple[str, ...] | None
    allocate_message_queue_strategy: str
    machine_room_resolver: MachineRoomResolver | None
    virtual_node_cnt: int
    min_partitions: int | None
    max_records_per_partition: int | None
    idle_wait_ms: int
    request_timeout_ms: int
    pull_batch_size: int

    @property
    def selection(self) -> TopicSelection:
        """The topics and queues to read."""
        return TopicSelection(self.topic or (), self.topic_pattern, self.assign or frozenset())

    @property
    def message_filter(self) -> MessageFilter:
        """Which messages the broker is asked for."""
        return MessageFilter(self.filter_expression, self.filter_type)

    @property
    def pull_group(self) -> str:
        """The group in whose name is pulled."""
        return self.consumer_group or DERIVED_GROUP

    @property
    def allocation(self) -> Allocation:
        """How queues become Spark partitions."""
        return choose(self)

    def starting(self, mode: Mode) -> Starting:
        """Where a new query begins."""
        return Starting(
            _ranked(
                ("startingTimestamp", self.starting_timestamp),
                ("startingOffsetsByTimestamp", self.starting_offsets_by_timestamp),
                ("startingOffsets", self.starting_offsets),
                ("startingOffsetsDefault", self.starting_offsets_default),
                ("the default", everything(LATEST if mode is Mode.STREAM else EARLIEST)),
            ),
            self.consumer_group,
            self.consume_from_where,
            self.consume_timestamp,
            self.starting_offsets_by_timestamp_strategy == "error",
        )

    @property
    def ending(self) -> Ranked:
        """Where a batch read ends."""
        return _ranked(
            ("endingTimestamp", self.ending_timestamp),
            ("endingOffsetsByTimestamp", self.ending_offsets_by_timestamp),
            ("endingOffsets", self.ending_offsets),
            ("the default", everything(LATEST)),
        )

    @classmethod
    def from_options(cls, options: Mapping[str, str], mode: Mode | None = None) -> SourceOptions:
        """Checks an option map as Spark hands it over, names in any case; what only one ``mode`` has, when it is known.

        Raises OptionError for an unknown, conflicting, missing or unreadable option, or one that is not for this mode.
        """
        given = {name.lower(): value for name, value in options.items()}
        _refuse_path(given)
        _refuse_unknown(options)
        _refuse_conflicts(given)
        checked = cls(**{option.attribute: _value(option, given) for option in OPTIONS})
        refuse_stray(given, checked)
        choose(checked)
        _refuse_positions(checked, mode)
        if mode is not None:
            _refuse_other_mode(given, mode)
        if checked.filter_type == SQL92 and "filterexpression" not in given:
            raise OptionError("Option filterType is SQL92 without an expression. Set option filterExpression.")
        return checked


def _refuse_path(given: Mapping[str, str]) -> None:
    if given.get("path"):
        raise OptionError(f"load() was given the path {given['path']!r}, which means nothing here. Use option topic.")


def _refuse_unknown(options: Mapping[str, str]) -> None:
    known = {option.name.lower(): option.name for option in OPTIONS}
    for name in options:
        if name.lower() not in known and name.lower() not in _ADDED_BY_SPARK | {"path"}:
            nearest = difflib.get_close_matches(name.lower(), known, n=1)
            hint = (
                f"Did you mean {known[nearest[0]]}?"
                if nearest
                else f"There are: {', '.join(option.name for option in OPTIONS)}."
            )
            raise OptionError(f"Unknown option {name}. {hint}")


def _refuse_conflicts(given: Mapping[str, str]) -> None:
    chosen = [name for name in _TOPIC_CHOICES if name.lower() in given]
    if len(chosen) > 1:
        raise OptionError(
            f"Options {' and '.join(chosen)} exclude each other. Give one of {', '.join(_TOPIC_CHOICES)}."
        )
    if not chosen:
        raise OptionError("Option topic is missing. Name one topic or several, or give topicPattern or assign.")


def _ranked(*options: tuple[str, Positions | None]) -> Ranked:
    return Ranked({name: positions for name, positions in options if positions is not None})


def _refuse_positions(options: SourceOptions, mode: Mode | None) -> None:
    starting = options.starting(mode or Mode.BATCH).wanted
    refuse_start_after_end(starting, options.ending)
    if options.consumer_group is None:
        for name, place in starting.options_with(GROUP):
            raise OptionError(
                f"Option {name} says group for {spelled(place)}. Name the group with option consumerGroup."
            )
    if mode is Mode.BATCH:
        for name, place in starting.options_with(LATEST):
            raise OptionError(
                f"Option {name} says latest for {spelled(place)}, where a batch read would find nothing. "
                "Begin at earliest, group, an offset or a time."
            )


def _refuse_other_mode(given: Mapping[str, str], mode: Mode) -> None:
    for option in OPTIONS:
        if option.only not in (None, mode) and option.name.lower() in given:
            raise OptionError(
                f"Option {option.name} is for a {option.only.value}, and this is a {mode.value}. Remove it."
            )


def _value(option: Option, given: Mapping[str, str]) -> Any:
    text = given.get(option.name.lower(), option.default)
    if text is None:
        if option.is_required:
            raise OptionError(f"Option {option.name} is missing. {option.doc} Set it with .option({option.name!r}, …).")
        return None
    try:
        return option.parse(text)
    except ValueError as error:
        raise OptionError(f"Option {option.name} is {text!r}. {error}") from None
