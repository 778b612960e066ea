"""The options of the sink, beside those of the connection: one declaration each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark_rmqpull.options.connection import CONNECTION_OPTIONS, connection_of, refuse_half_connection
from pyspark_rmqpull.options.declaration import Option, integer, one_of, read_options, resource_name
from rmqpull_client.connection import Connection
from rmqpull_client.errors import OptionError

AT_LEAST_ONCE, EXACTLY_ONCE = "at-least-once", "exactly-once"
"""Values of option ``delivery``."""
ROUND_ROBIN, HASH, EXPLICIT = "roundRobin", "hash", "explicit"
"""Values of option ``queueSelector``."""
FAIL, SKIP, DEAD_LETTER = "fail", "skip", "deadLetter"
"""Values of option ``onInvalidRow``."""

SINK_OPTIONS = (
    Option(
        "topic",
        None,
        "name",
        "Where every row goes; without it, each row says so in its column `topic`. The option wins over the column.",
        resource_name(127),
    ),
    Option(
        "delivery",
        None,
        "word",
        "`exactly-once`: a micro-batch, or a whole batch write, is one transaction on the broker: all of its rows are "
        "added once, or none. It needs a server with the extension `stages`. `at-least-once`: messages are sent as "
        "they come, and again when a task is tried again. Unset, the first where the server can do it, else the "
        "second.",
        one_of(AT_LEAST_ONCE, EXACTLY_ONCE),
    ),
    Option(
        "producerGroup",
        "rmqpull-spark-sink",
        "name",
        "With the query's id this is the name under which exactly-once remembers micro-batches, and which messages "
        "carry in at-least-once; keep it as long as the checkpoint.",
        resource_name(120),
    ),
    Option(
        "queueSelector",
        ROUND_ROBIN,
        "word",
        "The queue of a row: `roundRobin`; `hash`, the same for the same `keys`; or `explicit`, what the columns "
        "`brokerName` and `queueId` say, where they are not null. A row with a `messageGroup` goes to the queue of its "
        "group unless it names one. `hash` and `explicit` need our extension: over the standard protocol the server "
        "chooses.",
        one_of(ROUND_ROBIN, HASH, EXPLICIT),
    ),
    Option(
        "onInvalidRow",
        FAIL,
        "word",
        "A row that no broker would take (no body, an illegal tag, too large, ...): `fail` ends the write, `skip` "
        "leaves it out, counted in the log, `deadLetter` sends it to `deadLetterTopic` with the reason as property.",
        one_of(FAIL, SKIP, DEAD_LETTER),
    ),
    Option("deadLetterTopic", None, "name", "Where `onInvalidRow=deadLetter` sends rows.", resource_name(127)),
    Option(
        "maxMessageSize",
        "4194304",
        "bytes",
        "The largest body, before it is compressed; a larger one is an invalid row. The broker has its own limit.",
        integer(1, 32 << 20),
    ),
    Option(
        "compressMsgBodyOverHowmuch",
        "4096",
        "bytes",
        "Bodies of this size and above are compressed, as RocketMQ's producers do; 0 compresses none.",
        integer(0, 32 << 20),
    ),
    Option(
        "compressType",
        "ZLIB",
        "name",
        "How: `ZLIB`, `LZ4` or `ZSTD`. The standard protocol knows `ZLIB` alone.",
        one_of("ZLIB", "LZ4", "ZSTD"),
    ),
    Option(
        "sendMsgTimeout",
        None,
        "ms",
        "How long one send may take, retries included; unset, `requestTimeoutMs`.",
        integer(1, 3_600_000),
    ),
    Option(
        "retryTimesWhenSendFailed",
        None,
        "times",
        "How often a send is tried again at the most; unset, as `requestRetries` says.",
        integer(0, 1_000),
    ),
    Option(
        "batchBytes", "4194304", "bytes", "About how much is sent in one call in columns.", integer(1_024, 16 << 20)
    ),
    Option(
        "inFlight",
        "8",
        "calls",
        "How many sends of a task are under way at the same time. Where an order must hold that no stage keeps (in "
        "at-least-once, for rows with a `messageGroup`, or a `queueSelector` other than `roundRobin`), it is one.",
        integer(1, 1_000),
    ),
    Option(
        "transactionTimeoutMs",
        "600000",
        "ms",
        "How long the broker keeps what a dead job has sent in exactly-once; tasks at work keep theirs alive, but none "
        "is at work in the seconds between the last one and the commit. Also how long a commit may take while the "
        "broker answers.",
        integer(10_000, 86_400_000),
    ),
)

OPTIONS = (*CONNECTION_OPTIONS, *SINK_OPTIONS)


@dataclass(frozen=True)
class SinkOptions:
    """The options of one write, checked. Field names are those of the options in Python's spelling."""

    connection: Connection
    topic: str | None
    delivery: str | None
    producer_group: str
    queue_selector: str
    on_invalid_row: str
    dead_letter_topic: str | None
    max_message_size: int
    compress_msg_body_over_howmuch: int
    compress_type: str
    batch_bytes: int
    in_flight: int
    transaction_timeout_ms: int
    checkpoint_location: str | None = None
    """Spark's own option, where a query gives it."""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> SinkOptions:
        """Checks an option map as Spark hands it over, names in any case. Raises OptionError."""
        values = read_options(OPTIONS, options)
        connected = {option.attribute: values.pop(option.attribute) for option in CONNECTION_OPTIONS}
        refuse_half_connection({name.lower(): value for name, value in options.items()}, connected["tls_enabled"])
        connection = connection_of(connected)
        send_timeout_ms, retries = values.pop("send_msg_timeout"), values.pop("retry_times_when_send_failed")
        if send_timeout_ms is not None:
            connection = replace(connection, request_timeout_ms=send_timeout_ms)
        if retries is not None:
            connection = replace(connection, request_retries=retries)
        location = next((value for name, value in options.items() if name.lower() == "checkpointlocation"), None)
        checked = cls(connection, **values, checkpoint_location=location)
        if (checked.on_invalid_row == DEAD_LETTER) != (checked.dead_letter_topic is not None):
            raise OptionError(
                f"Option onInvalidRow is {checked.on_invalid_row} and deadLetterTopic is "
                f"{checked.dead_letter_topic or 'not set'}. Give deadLetterTopic with onInvalidRow=deadLetter, and "
                "only then."
            )
        return checked
