"""The options of the source: one declaration each, from which checks and the README's table are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from pyspark_rmqpull.options.admission import ADMISSION_OPTIONS, refuse_limits
from pyspark_rmqpull.options.allocation import ALLOCATION_OPTIONS
from pyspark_rmqpull.options.allocation_choice import choose, refuse_stray
from pyspark_rmqpull.options.connection import CONNECTION_OPTIONS, connection_of, refuse_half_connection
from pyspark_rmqpull.options.declaration import Mode, read_options, refuse_unknown
from pyspark_rmqpull.options.flow import FLOW_OPTIONS
from pyspark_rmqpull.options.positions import POSITION_OPTIONS
from pyspark_rmqpull.options.progress import PROGRESS_OPTIONS, refuse_stray_progress
from pyspark_rmqpull.options.selection import SELECTION_OPTIONS
from pyspark_rmqpull.planning.admission import Limits
from pyspark_rmqpull.planning.ending import refuse_start_after_end
from pyspark_rmqpull.planning.positions import EARLIEST, GROUP, LATEST, Positions, Ranked, everything, spelled
from pyspark_rmqpull.planning.selection import TopicSelection
from pyspark_rmqpull.planning.starting import Starting
from rmqpull_client.allocation.machine_room import MachineRoomResolver
from rmqpull_client.allocation.strategies import Allocation
from rmqpull_client.connection import Connection
from rmqpull_client.errors import OptionError
from rmqpull_client.flow import Flow
from rmqpull_client.model import SQL92, MessageFilter, MessageQueue
from rmqpull_client.offsets.stores import ConsumerGroup

DERIVED_GROUP = "rmqpull-spark-source"
"""The consumer group in whose name a query without one pulls; nothing is committed for it."""

_TOPIC_CHOICES = ("topic", "topicPattern", "assign")


OPTIONS = (
    *CONNECTION_OPTIONS,
    *SELECTION_OPTIONS,
    *PROGRESS_OPTIONS,
    *POSITION_OPTIONS,
    *ADMISSION_OPTIONS,
    *ALLOCATION_OPTIONS,
    *FLOW_OPTIONS,
)


@dataclass(frozen=True)
class SourceOptions:
    """The options of one query, checked. Field names are those of the options in Python's spelling."""

    endpoints: str
    access_key: str | None = field(repr=False)
    secret_key: str | None = field(repr=False)
    namespace: str | None
    tls_enabled: bool
    tls_ca_file: str | None
    tls_cert_file: str | None
    tls_key_file: str | None
    request_timeout_ms: int
    request_retries: int | None
    request_retry_interval_ms: int
    topic: tuple[str, ...] | None
    topic_pattern: str | None
    assign: frozenset[MessageQueue] | None
    wait_for_topic: int
    columns: tuple[str, ...] | None
    bodies: str
    filter_expression: str
    filter_type: str
    consumer_group: str | None
    commit_offsets: bool
    message_model: str
    client_id: str | None
    local_offset_store_dir: str
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
    min_offsets_per_trigger: int | None
    max_trigger_delay: int
    max_bytes_per_trigger: int | None
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
    max_bytes_per_partition: int | None
    idle_wait_ms: int
    pull_batch_size: int
    pull_threshold_for_queue: int
    pull_threshold_size_for_queue: int
    pull_threshold_size_for_topic: int
    long_polling_timeout_ms: int

    @property
    def connection(self) -> Connection:
        """How the broker is reached."""
        return connection_of(vars(self))

    @property
    def flow(self) -> Flow:
        """How much may be under way, and how long a pull waits."""
        return Flow(**{field.name: getattr(self, field.name) for field in fields(Flow)})

    @property
    def selection(self) -> TopicSelection:
        """The topics and queues to read."""
        return TopicSelection(self.topic or (), self.topic_pattern, self.assign or frozenset())

    @property
    def message_filter(self) -> MessageFilter:
        """Which messages the broker is asked for."""
        return MessageFilter(self.filter_expression, self.filter_type)

    @property
    def group(self) -> ConsumerGroup | None:
        """The group that follows the query, if there is one."""
        if self.consumer_group is None:
            return None
        return ConsumerGroup(self.consumer_group, self.message_model, self.client_id, self.local_offset_store_dir)

    @property
    def pull_group(self) -> str:
        """The group in whose name is pulled."""
        return self.consumer_group or DERIVED_GROUP

    @property
    def limits(self) -> Limits:
        """How much a micro-batch takes."""
        return Limits(
            self.max_offsets_per_trigger,
            self.min_offsets_per_trigger,
            self.max_trigger_delay,
            self.max_bytes_per_trigger,
        )

    @property
    def has_byte_limits(self) -> bool:
        """Whether the broker is asked where so many bytes end."""
        return (self.max_bytes_per_trigger, self.max_bytes_per_partition) != (None, None)

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
        refuse_unknown(OPTIONS, options)
        _refuse_conflicts(given)
        checked = cls(**read_options(OPTIONS, options))
        refuse_half_connection(given, checked.tls_enabled)
        refuse_stray(given, checked)
        refuse_stray_progress(given, checked)
        choose(checked)
        refuse_limits(given, checked.limits)
        _refuse_positions(checked, mode)
        if mode is not None:
            _refuse_other_mode(given, mode)
        if checked.filter_type == SQL92 and "filterexpression" not in given:
            raise OptionError("Option filterType is SQL92 without an expression. Set option filterExpression.")
        return checked


def _refuse_conflicts(given: Mapping[str, str]) -> None:
    chosen = [name for name in _TOPIC_CHOICES if name.lower() in given]
    if len(chosen) > 1:
        raise OptionError(
            f"Options {' and '.join(chosen)} exclude each other. Give one of {', '.join(_TOPIC_CHOICES)}."
        )
    if not chosen:
        raise OptionError("Option topic is missing. Name one topic or several, or give topicPattern or assign.")
    if chosen == ["topicPattern"] and "waitfortopic" in given:
        raise OptionError(
            "Option waitForTopic has nothing to wait for: topicPattern may match no topic, and those that come later "
            "are found. Remove it, or name the topics with option topic."
        )


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
