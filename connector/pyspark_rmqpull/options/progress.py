"""Options of a query's progress: the consumer group, where the query starts and ends, and what happens on data loss."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_rmqpull.options.declaration import Mode, option
from pyspark_rmqpull.options.json_parsers import (
    parse_ending_offsets,
    parse_offsets_by_timestamp,
    parse_starting_default,
    parse_starting_offsets,
    parse_timestamp_of_all,
)
from pyspark_rmqpull.options.parsers import matching, one_of, parse_boolean, parse_path, resource_name
from pyspark_rmqpull.planning.offset_specs import EARLIEST, LATEST, OffsetSpecs, RankedSpecs
from pyspark_rmqpull.planning.starts_and_ends import (
    CONSUME_FROM_FIRST_OFFSET,
    CONSUME_FROM_LAST_OFFSET,
    CONSUME_FROM_TIMESTAMP,
    StartRules,
)
from rmqpull_client.connection import CLIENT_ID
from rmqpull_client.offsets.stores import BROADCASTING, CLUSTERING, LOCAL_OFFSET_STORE_DIR, ConsumerGroup
from rmqpull_client.timestamps import parse_consume_timestamp

DERIVED_GROUP = "rmqpull-spark-source"
"""The consumer group of pulls when a query has none; no consumer offsets are set for it."""


@dataclass(frozen=True, kw_only=True)
class ProgressOptions:
    """The group becomes a :class:`ConsumerGroup`; the starts become :class:`StartRules`, the ends offset specs."""

    consumer_group: str | None = option(
        resource_name(120),
        unit="name",
        doc="Consumer group whose offsets follow the query: after each micro-batch they are set to what the query has "
        "read. Use it to watch the query with RocketMQ's tools. A batch read sets no offsets. Default: no offsets are "
        "set.",
        kafka_name="kafka.group.id",
    )
    commit_offsets: bool = option(
        parse_boolean,
        unit="true, false",
        doc="Sets the offsets of `consumerGroup`. With `false` the query uses the group only for pulls and for "
        "`startingOffsets=group`, and leaves its offsets unchanged.",
        default="true",
        only=Mode.STREAM,
    )
    message_model: str = option(
        one_of(CLUSTERING, BROADCASTING),
        unit="name",
        doc=f"Where the group's offsets are stored: `{CLUSTERING}` on the broker, `{BROADCASTING}` in a file on the "
        "driver's machine, as RocketMQ's broadcasting consumers do.",
        default=CLUSTERING,
    )
    client_id: str | None = option(
        matching(
            r"(?!\.{1,2}$)[%|a-zA-Z0-9_@.:#-]{1,255}",
            "1 to 255 of the characters a-z A-Z 0-9 _ - % | @ . : #, because a directory gets this name, too",
        ),
        unit=CLIENT_ID.unit,
        doc=f"Client id of this query. With `{BROADCASTING}`, the offsets of earlier runs are stored under this id, so "
        f"keep it unchanged, and give each query of a group an id of its own. {CLIENT_ID.doc} Default: `<driver's host "
        "name>@DEFAULT`.",
    )
    local_offset_store_dir: str = option(
        parse_path,
        unit="path",
        doc=f"Directory for the offsets of `{BROADCASTING}`, in files `<clientId>/<group>/offsets.json`. Corresponds "
        "to RocketMQ's property `rocketmq.client.localOffsetStoreDir`.",
        default=LOCAL_OFFSET_STORE_DIR,
    )
    fail_on_data_loss: bool = option(
        parse_boolean,
        unit="true, false",
        doc="Fails the query when messages that it has not read yet are lost. With `false` it reports the loss and "
        "continues. If messages have expired, it continues at the earliest one that is left. If the history of a queue "
        "was rewritten (restored from a backup, truncated, or created again in a cluster), it continues with the first "
        "message stored at the same time as the last one that the query has passed, or later; only then may it read "
        "messages twice.",
        default="true",
    )
    starting_offsets: OffsetSpecs | None = option(
        parse_starting_offsets,
        unit="word or JSON",
        doc="Where a new query starts: `earliest`, `latest` (streams only), `group` (the offsets of `consumerGroup`), "
        'or a value for each topic or queue: `{"orders":"earliest"}`, `{"orders":{"broker-a":{"0":12,"1":"latest"}}}`. '
        "A query with a checkpoint resumes from there instead, and reads new queues from their beginning.",
    )
    starting_offsets_default: OffsetSpecs | None = option(
        parse_starting_default,
        unit="word",
        doc="Where queues start that no other starting option names: `earliest`, `latest` or `group`. Default: "
        "`latest` in a stream, `earliest` in a batch read.",
    )
    starting_timestamp: OffsetSpecs | None = option(
        parse_timestamp_of_all,
        unit="ISO 8601 or ms",
        doc="Starts every queue at the first message that the broker stored at this time or later. A time without a "
        "zone is in UTC. For each queue, this option overrides `startingOffsetsByTimestamp`, which overrides "
        "`startingOffsets`.",
    )
    starting_offsets_by_timestamp: OffsetSpecs | None = option(
        parse_offsets_by_timestamp,
        unit="JSON",
        doc='Like `startingTimestamp`, for single topics or queues: `{"orders":"2026-03-01T12:00:00Z"}`, '
        '`{"orders":{"broker-a":{"0":1772366400000}}}`.',
    )
    starting_offsets_by_timestamp_strategy: str = option(
        one_of("error", "latest"),
        unit="error, latest",
        doc="What to do with a queue that has no message stored at the starting time or later: `error` fails the "
        "query, `latest` starts at the end of the queue.",
        default="error",
    )
    consume_from_where: str = option(
        one_of(CONSUME_FROM_LAST_OFFSET, CONSUME_FROM_FIRST_OFFSET, CONSUME_FROM_TIMESTAMP),
        unit="name",
        doc=f"Where `group` starts on queues without an offset of the group: `{CONSUME_FROM_LAST_OFFSET}`, "
        f"`{CONSUME_FROM_FIRST_OFFSET}` or `{CONSUME_FROM_TIMESTAMP}`. Note that RocketMQ's brokers give a new group "
        "offset 0 of a queue whose first message is still in memory, so the group reads such a queue from its start.",
        default=CONSUME_FROM_LAST_OFFSET,
    )
    consume_timestamp: int | None = option(
        parse_consume_timestamp,
        unit="yyyyMMddHHmmss, ISO 8601 or ms",
        doc=f"Time for `{CONSUME_FROM_TIMESTAMP}`. RocketMQ's form, the first one, is in the driver's time zone. "
        "Default: half an hour before the query starts.",
    )
    ending_offsets: OffsetSpecs | None = option(
        parse_ending_offsets,
        unit="word or JSON",
        doc="Where the read ends: `latest`, or offsets for each topic or queue in the form of `startingOffsets`. "
        "Offsets are exclusive. Other queues are read to where they end when the read is planned.",
        only=Mode.BATCH,
    )
    ending_timestamp: OffsetSpecs | None = option(
        parse_timestamp_of_all,
        unit="ISO 8601 or ms",
        doc="Ends every queue before the first message that the broker stored at this time or later; a queue without "
        "such a message is read to its end. Overrides the other ending options as `startingTimestamp` does.",
        only=Mode.BATCH,
    )
    ending_offsets_by_timestamp: OffsetSpecs | None = option(
        parse_offsets_by_timestamp,
        unit="JSON",
        doc="Like `endingTimestamp`, for single topics or queues, in the form of `startingOffsetsByTimestamp`.",
        only=Mode.BATCH,
    )

    @property
    def group(self) -> ConsumerGroup | None:
        """The group that follows the query, if there is one."""
        if self.consumer_group is None:
            return None
        return ConsumerGroup(self.consumer_group, self.message_model, self.client_id, self.local_offset_store_dir)

    @property
    def pull_group(self) -> str:
        """The group that pulls name."""
        return self.consumer_group or DERIVED_GROUP

    def make_start_rules(self, mode: Mode) -> StartRules:
        """Returns where a new query starts."""
        specs = _rank(
            ("startingTimestamp", self.starting_timestamp),
            ("startingOffsetsByTimestamp", self.starting_offsets_by_timestamp),
            ("startingOffsets", self.starting_offsets),
            ("startingOffsetsDefault", self.starting_offsets_default),
            ("the default", OffsetSpecs.for_all(LATEST if mode is Mode.STREAM else EARLIEST)),
        )
        is_match_needed = self.starting_offsets_by_timestamp_strategy == "error"
        return StartRules(specs, self.consumer_group, self.consume_from_where, self.consume_timestamp, is_match_needed)

    @property
    def ends(self) -> RankedSpecs:
        """Where a batch read ends."""
        return _rank(
            ("endingTimestamp", self.ending_timestamp),
            ("endingOffsetsByTimestamp", self.ending_offsets_by_timestamp),
            ("endingOffsets", self.ending_offsets),
            ("the default", OffsetSpecs.for_all(LATEST)),
        )


def _rank(*options: tuple[str, OffsetSpecs | None]) -> RankedSpecs:
    return RankedSpecs({name: specs for name, specs in options if specs is not None})
