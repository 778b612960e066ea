"""Options that select what a query reads: topics, queues, messages and columns."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_rmqpull.options.declaration import option, option_of
from pyspark_rmqpull.options.json_parsers import parse_assign
from pyspark_rmqpull.options.parsers import (
    duration_ms,
    one_of,
    parse_lite_topics,
    parse_names,
    parse_topic_pattern,
    parse_topics,
    resource_name,
)
from pyspark_rmqpull.planning.topics import TopicSelection
from rmqpull_client.connection import PARENT_TOPIC
from rmqpull_client.light_queues import name_lite_topic
from rmqpull_client.model import SQL92, TAG, MessageFilter, MessageQueue

BODIES_UNPACKED, BODIES_RAW_IF_DAMAGED, BODIES_RAW = "unpacked", "rawIfDamaged", "raw"
"""Values of option ``bodies``."""


@dataclass(frozen=True, kw_only=True)
class SelectionOptions:
    """Topics become a :class:`TopicSelection`, messages a :class:`MessageFilter`, columns the schema of the rows."""

    topic: tuple[str, ...] | None = option(
        parse_topics,
        unit="names",
        doc="Topics to read with all their queues, separated by commas. Set exactly one of `topic`, `topicPattern` and "
        "`assign`.",
        kafka_name="subscribe",
    )
    topic_pattern: str | None = option(
        parse_topic_pattern,
        unit="regular expression",
        doc="Reads all topics whose whole name matches. The query looks for new topics at every trigger and reads them "
        "from their beginning. Retry and dead-letter topics match only a pattern that starts with `%`. Needs a server "
        "that can list its topics.",
        kafka_name="subscribePattern",
    )
    assign: frozenset[MessageQueue] | None = option(
        parse_assign,
        unit="JSON",
        doc='Reads only these queues, by topic and broker name: `{"orders":{"broker-a":[0,1]}}`.',
    )
    lite_topics: tuple[str, ...] | None = option(
        parse_lite_topics,
        unit="names",
        doc="With `nameServers`: lite topics to read, separated by commas. They belong to the topic of type LITE that "
        "`topic` names, which is not read itself. Rows and offsets name such a lite topic `%LMQ%$TOPIC$LITE_TOPIC`, "
        "and `topic` accepts that name, too.",
    )
    parent_topic: str = option_of(PARENT_TOPIC, resource_name(127))
    wait_for_topic: int = option(
        duration_ms(0, 3_600_000),
        unit="duration",
        doc="How long the query waits at its start for a topic or queue that `topic` or `assign` names and that does "
        "not exist yet: `90s`, `5m`, at most one hour. Default: the query fails at once.",
        default="0",
    )
    columns: tuple[str, ...] | None = option(
        parse_names,
        unit="names",
        doc="Columns to read, separated by commas, in this order. Other columns are not transferred. A schema passed "
        "to the read has the same effect. Default: all columns but `systemProperties`.",
    )
    bodies: str = option(
        one_of(BODIES_UNPACKED, BODIES_RAW_IF_DAMAGED, BODIES_RAW),
        unit="word",
        doc="What to do with bodies that their producer compressed (zlib, gzip, LZ4, zstd). `unpacked` decompresses "
        "them and fails the query on a damaged one. `rawIfDamaged` returns a damaged one as it was sent, and counts it "
        "in the task's log. `raw` returns all bodies as they were sent.",
        default=BODIES_UNPACKED,
    )
    filter_expression: str = option(
        str,
        unit="expression",
        doc="Reads only messages that match; the broker evaluates the expression. It is `*` for all messages, tags "
        "such as `paid || sent`, or a SQL92 condition on message properties. Offsets and `maxOffsetsPerTrigger` also "
        "count the messages that do not match.",
        default="*",
    )
    filter_type: str = option(
        one_of(TAG, SQL92),
        unit="TAG, SQL92",
        doc="Language of `filterExpression`: tags, or SQL92.",
        default=TAG,
    )

    @property
    def selection(self) -> TopicSelection:
        """The topics and queues to read."""
        names = self.topic or ()
        if self.lite_topics is not None:
            names = tuple(name_lite_topic(parent, lite) for parent in names for lite in self.lite_topics)
        return TopicSelection(names, self.topic_pattern, self.assign or frozenset())

    @property
    def message_filter(self) -> MessageFilter:
        """The filter that the broker evaluates."""
        return MessageFilter(self.filter_expression, self.filter_type)
