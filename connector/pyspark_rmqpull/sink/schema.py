"""The columns that the sink takes (rules 9.3), checked when a write is planned."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from pyspark_rmqpull.options.sending import EXPLICIT
from pyspark_rmqpull.options.sink import SinkOptions
from rmqpull_client.errors import OptionError

ACCEPTED: dict[str, tuple[DataType, ...]] = {
    "body": (BinaryType(), StringType()),
    "topic": (StringType(),),
    "tags": (StringType(),),
    "keys": (StringType(), ArrayType(StringType())),
    "properties": (MapType(StringType(), StringType()),),
    "messageGroup": (StringType(),),
    "deliveryTimestamp": (TimestampType(),),
    "priority": (IntegerType(),),
    "brokerName": (StringType(),),
    "queueId": (IntegerType(),),
}
"""Columns that become part of a message or say where it goes. Only ``body`` is required."""

COLUMNS_FROM_KAFKA = {"value": "body", "key": "keys", "headers": "properties", "partition": "queueId"}
"""The column with the same meaning, by its name in Spark's Kafka sink."""

IGNORED = (
    "msgId",
    "queueOffset",
    "bornTimestamp",
    "bornHost",
    "storeTimestamp",
    "storeHost",
    "reconsumeTimes",
    "systemProperties",
)
"""Columns of the source that the sink ignores, because a message gets new values for them."""


def check_sink_schema(schema: StructType, options: SinkOptions) -> None:
    """Raises OptionError for unknown or missing columns, and for columns of another type."""
    for field in schema.fields:
        if field.name in IGNORED:
            continue
        if field.name not in ACCEPTED:
            ours = COLUMNS_FROM_KAFKA.get(field.name)
            hint = f" Spark's Kafka sink calls it {field.name}; here it is {ours}." if ours else ""
            raise OptionError(f"The sink does not know column {field.name}.{hint} It takes {spell_columns()}.")
        if schema.names.count(field.name) > 1:
            raise OptionError(f"There are two columns {field.name}. Keep one of them.")
        if not any(_is_same(field.dataType, accepted) for accepted in ACCEPTED[field.name]):
            wanted = " or ".join(accepted.simpleString().upper() for accepted in ACCEPTED[field.name])
            raise OptionError(f"Column {field.name} is {field.dataType.simpleString().upper()}; it must be {wanted}.")
    if "body" not in schema.names:
        raise OptionError(f"Column body is missing. The sink takes {spell_columns()}.")
    if options.topic is None and "topic" not in schema.names:
        raise OptionError("The rows have no topic. Set option topic, or add a column topic.")
    if options.queue_selector == EXPLICIT and not {"brokerName", "queueId"} <= set(schema.names):
        raise OptionError("Option queueSelector is explicit, which needs the columns brokerName and queueId.")


def list_written_columns(options: SinkOptions) -> list[str]:
    """Returns the names of the accepted columns that the sink uses with these options."""
    unused = set() if options.topic is None else {"topic"}
    if options.queue_selector != EXPLICIT:
        unused |= {"brokerName", "queueId"}
    return [name for name in ACCEPTED if name not in unused]


def spell_columns() -> str:
    """Names the accepted columns with their types."""
    return ", ".join(
        f"{name} {' or '.join(accepted.simpleString().upper() for accepted in types)}"
        for name, types in ACCEPTED.items()
    )


def _is_same(given: DataType, accepted: DataType) -> bool:
    """Whether two types are the same except for nullability."""
    return given.simpleString() == accepted.simpleString()
