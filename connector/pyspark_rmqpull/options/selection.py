"""Options that say what is read: topics, queues, messages and columns."""

from __future__ import annotations

from pyspark_rmqpull.options.declaration import Option, duration_ms, names, one_of
from pyspark_rmqpull.planning.selection import parse_assign, parse_pattern, parse_topics
from rmqpull_client.model import SQL92, TAG

BODIES_UNPACKED, BODIES_RAW_IF_DAMAGED, BODIES_RAW = "unpacked", "rawIfDamaged", "raw"
"""Values of option ``bodies``."""

SELECTION_OPTIONS = (
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
        "waitForTopic",
        "0",
        "duration",
        "How long a topic or queue that `topic` or `assign` names and that does not exist is waited for when the query "
        "starts, as `90s` or `5m`, an hour at most; 0 refuses it at once.",
        duration_ms(0, 3_600_000),
    ),
    Option(
        "columns",
        None,
        "names",
        "Columns of the row with commas between, in this order; only these travel. A schema of your own does the same.",
        names,
    ),
    Option(
        "bodies",
        BODIES_UNPACKED,
        "word",
        "Bodies that their producers compressed (zlib, gzip, LZ4, zstd): `unpacked`, where one that cannot be ends the "
        "query; `rawIfDamaged`, where such a one is given as it was sent, and counted in the log of its task; or "
        "`raw`, all as they were sent.",
        one_of(BODIES_UNPACKED, BODIES_RAW_IF_DAMAGED, BODIES_RAW),
    ),
    Option(
        "filterExpression",
        "*",
        "expression",
        "Which messages are read, evaluated by the broker: tags as `paid || sent`, `*` for all, or a SQL92 condition "
        "over message properties. `maxOffsetsPerTrigger` and offsets count messages that are passed over, too.",
        str,
    ),
    Option("filterType", "TAG", "TAG, SQL92", "How `filterExpression` is read.", one_of(TAG, SQL92)),
)
