"""The options that say where a query begins and where a batch read ends."""

from __future__ import annotations

from pyspark_rmqpull.options.declaration import Mode, Option, one_of
from pyspark_rmqpull.planning.positions import (
    parse_ending_offsets,
    parse_offsets_by_timestamp,
    parse_starting_default,
    parse_starting_offsets,
    parse_timestamp_of_everything,
)
from pyspark_rmqpull.planning.starting import (
    CONSUME_FROM_FIRST_OFFSET,
    CONSUME_FROM_LAST_OFFSET,
    CONSUME_FROM_TIMESTAMP,
)
from rmqpull_client.timestamps import parse_consume_timestamp

POSITION_OPTIONS = (
    Option(
        "startingOffsets",
        None,
        "word or JSON",
        "Where a new query begins: `earliest`, `latest` (streams), `group` (the offsets of `consumerGroup`), or per "
        'topic or queue as `{"orders":"earliest"}` or `{"orders":{"broker-a":{"0":12,"1":"latest"}}}`. '
        "A query with a checkpoint goes on from there; a queue found later is read from its beginning.",
        parse_starting_offsets,
    ),
    Option(
        "startingOffsetsDefault",
        None,
        "word",
        "Where queues begin that no other option names: `earliest`, `latest` or `group`; unset, `latest` in a stream "
        "and `earliest` in a batch read.",
        parse_starting_default,
    ),
    Option(
        "startingTimestamp",
        None,
        "ISO 8601 or ms",
        "Begins every queue at its first message that the broker stored then or later. Without a zone, UTC. Ranks "
        "above `startingOffsetsByTimestamp`, and that above `startingOffsets`, queue by queue.",
        parse_timestamp_of_everything,
    ),
    Option(
        "startingOffsetsByTimestamp",
        None,
        "JSON",
        'The same per topic or queue: `{"orders":"2026-03-01T12:00:00Z"}` or '
        '`{"orders":{"broker-a":{"0":1772366400000}}}`.',
        parse_offsets_by_timestamp,
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "error",
        "error, latest",
        "What becomes of a queue without a message stored at the time or later: it fails the query, or begins at its "
        "end.",
        one_of("error", "latest"),
    ),
    Option(
        "consumeFromWhere",
        CONSUME_FROM_LAST_OFFSET,
        "name",
        f"Where `group` begins on queues that the group has no offset of: `{CONSUME_FROM_LAST_OFFSET}`, "
        f"`{CONSUME_FROM_FIRST_OFFSET}` or `{CONSUME_FROM_TIMESTAMP}`. RocketMQ's brokers give a new group offset 0 of "
        "a queue that still has its first message at hand, so that it reads such a queue whole.",
        one_of(CONSUME_FROM_LAST_OFFSET, CONSUME_FROM_FIRST_OFFSET, CONSUME_FROM_TIMESTAMP),
    ),
    Option(
        "consumeTimestamp",
        None,
        "yyyyMMddHHmmss, ISO 8601 or ms",
        f"The time of `{CONSUME_FROM_TIMESTAMP}`; RocketMQ's own form is in the driver's time zone. Unset, half an "
        "hour before the query begins.",
        parse_consume_timestamp,
    ),
    Option(
        "endingOffsets",
        None,
        "word or JSON",
        "Where each queue ends: `latest`, or per topic or queue as for `startingOffsets`, offsets exclusive; what is "
        "not named ends where it ended when the read was planned.",
        parse_ending_offsets,
        only=Mode.BATCH,
    ),
    Option(
        "endingTimestamp",
        None,
        "ISO 8601 or ms",
        "Ends every queue before its first message that was stored then or later; ranks as `startingTimestamp` does. A "
        "queue without one is read to its end.",
        parse_timestamp_of_everything,
        only=Mode.BATCH,
    ),
    Option(
        "endingOffsetsByTimestamp",
        None,
        "JSON",
        "The same per topic or queue.",
        parse_offsets_by_timestamp,
        only=Mode.BATCH,
    ),
)
