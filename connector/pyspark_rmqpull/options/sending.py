"""Options that say how the sink makes messages of rows, and how it sends them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_rmqpull.options.declaration import option
from pyspark_rmqpull.options.parsers import integer, one_of, resource_name

AT_LEAST_ONCE, EXACTLY_ONCE = "at-least-once", "exactly-once"
"""Values of option ``delivery``."""
ROUND_ROBIN, HASH, EXPLICIT = "roundRobin", "hash", "explicit"
"""Values of option ``queueSelector``."""
FAIL, SKIP, DEAD_LETTER = "fail", "skip", "deadLetter"
"""Values of option ``onInvalidRow``."""
WARN = "warn"
"""With ``FAIL``, the values of option ``onCommitGap``."""
DROP = "drop"
"""With ``FAIL``, the values of option ``invalidProperties``."""


@dataclass(frozen=True, kw_only=True)
class SendingOptions:
    """The options of the sink, without those of the connection."""

    topic: str | None = option(
        resource_name(127),
        unit="name",
        doc="Topic of all rows; it overrides the column `topic`. Default: every row names its topic in that column.",
    )
    delivery: str | None = option(
        one_of(AT_LEAST_ONCE, EXACTLY_ONCE),
        unit="word",
        doc="`exactly-once` writes a micro-batch, or a batch write, as one transaction: all rows once, or none. While "
        "the commit runs, the rows become readable call by call, so readers may see only a part of them for that time. "
        "It needs a server with the extension `stages`, so it cannot be used with `nameServers`. `at-least-once` sends "
        "messages immediately, and again when Spark retries a task. Default: `exactly-once` if the server supports it, "
        "else `at-least-once`.",
    )
    producer_group: str = option(
        resource_name(120),
        unit="name",
        doc="Producer group. Together with the query's id it identifies the micro-batches of exactly-once, so keep it "
        "as long as the checkpoint. With at-least-once, messages carry both as properties.",
        default="rmqpull-spark-sink",
    )
    queue_selector: str = option(
        one_of(ROUND_ROBIN, HASH, EXPLICIT),
        unit="word",
        doc="Queue of a row. `roundRobin` takes the queues in turn, with parts of requests (`minRecordsPerQueue`; with "
        "`nameServers`, batch by batch), `hash` sends equal `keys` to the same queue, `explicit` uses the columns "
        "`brokerName` and `queueId` where they are not null. A row with a `messageGroup` goes to the queue of its "
        "group, unless it names a queue. `hash` and `explicit` need `nameServers`, or a server with the columnar "
        "extension; over the standard protocol the server selects the queue.",
        default=ROUND_ROBIN,
    )
    min_records_per_queue: int | None = option(
        integer(1, 10_000),
        unit="rows",
        doc="How many rows a request puts into one queue at least, of rows that may go to any queue; a smaller request "
        "goes to one queue. The more rows, the larger are the parts that broker and readers handle, and the less even "
        "are the queues of a small write. With 1, each request goes to all queues. Default: 1, and 1,024 once the task "
        "has written more than 1,024 rows to the topic for each of its queues. It needs a server with the columnar "
        "extension, so it cannot be used with `nameServers`.",
    )
    on_invalid_row: str = option(
        one_of(FAIL, SKIP, DEAD_LETTER),
        unit="word",
        doc="What to do with a row that no broker accepts, such as one without a body, with an illegal tag, or with "
        "too large a body. `fail` fails the write, `skip` drops the row and counts it in the log, `deadLetter` sends "
        "it to `deadLetterTopic` with the reason as a property.",
        default=FAIL,
    )
    invalid_properties: str = option(
        one_of(FAIL, DROP),
        unit="word",
        doc="What to do with a property that the server cannot carry, such as one with a name of RocketMQ's own. With "
        "`fail` its row is invalid, and `onInvalidRow` decides. `drop` writes the row without this property, and "
        "counts dropped properties in the log.",
        default=FAIL,
    )
    dead_letter_topic: str | None = option(
        resource_name(127),
        unit="name",
        doc="Topic for invalid rows. Required with `onInvalidRow=deadLetter`.",
    )
    max_message_size: int = option(
        integer(1, 32 << 20),
        unit="bytes",
        doc="Largest body before compression; a row with a larger one is invalid. The broker has a limit of its own.",
        default="4194304",
    )
    compress_msg_body_over_howmuch: int = option(
        integer(0, 32 << 20),
        unit="bytes",
        doc="Compresses bodies of at least this size, as RocketMQ's producers do. With 0, no body is compressed.",
        default="4096",
    )
    compress_type: str = option(
        one_of("ZLIB", "LZ4", "ZSTD"),
        unit="name",
        doc="Compression of bodies: `ZLIB`, `LZ4` or `ZSTD`. The standard gRPC protocol has only `ZLIB`.",
        default="ZLIB",
    )
    send_msg_timeout: int | None = option(
        integer(1, 3_600_000),
        unit="ms",
        doc="Time limit of one send, including retries. Default: `requestTimeoutMs`.",
    )
    retry_times_when_send_failed: int | None = option(
        integer(0, 1_000),
        unit="retries",
        doc="Maximum number of retries of a send. Default: `requestRetries`.",
    )
    batch_bytes: int = option(
        integer(1_024, 16 << 20),
        unit="bytes",
        doc="About how many bytes one request carries to a server with the columnar extension, or with `nameServers`. "
        "A request to an Apache broker carries at most 4,000 rows and 4 MB.",
        default="4194304",
    )
    in_flight: int = option(
        integer(1, 1_000),
        unit="requests",
        doc="How many sends a task may have in flight. With at-least-once it is 1 where order matters: for rows with a "
        "`messageGroup`, and for a `queueSelector` other than `roundRobin`. With `nameServers` only requests for the "
        "same queue wait for each other there.",
        default="8",
    )
    transaction_timeout_ms: int = option(
        integer(10_000, 86_400_000),
        unit="ms",
        doc="For exactly-once: how long the broker keeps the uncommitted rows of a job that was killed. Running tasks "
        "renew this time, but nothing renews it between the last task and the commit. It is also the time limit of a "
        "commit while the broker responds.",
        default="600000",
    )
    on_commit_gap: str = option(
        one_of(WARN, FAIL),
        unit="word",
        doc="For exactly-once streams: what to do when the broker has never committed the micro-batches before the "
        "current one, because its data is older than the checkpoint, or because it is another broker. Their rows are "
        "missing there. `warn` commits the micro-batch, and driver and broker log a warning. `fail` commits nothing "
        "and ends the query; it needs `checkpointLocation` as an option of the write, in a folder that Python can "
        "open.",
        default=WARN,
    )
