"""The row of the source (rules 9.3), and what a user may ask for instead of all of it."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rmqpull_client.errors import OptionError

ROW_SCHEMA = StructType(
    [
        StructField("topic", StringType()),
        StructField("brokerName", StringType()),
        StructField("queueId", IntegerType()),
        StructField("queueOffset", LongType()),
        StructField("msgId", StringType()),
        StructField("tags", StringType()),
        StructField("keys", ArrayType(StringType())),
        StructField("body", BinaryType()),
        StructField("properties", MapType(StringType(), StringType())),
        StructField("bornTimestamp", TimestampType()),
        StructField("bornHost", StringType()),
        StructField("storeTimestamp", TimestampType()),
        StructField("storeHost", StringType()),
        StructField("reconsumeTimes", IntegerType()),
        StructField("messageGroup", StringType()),
        StructField("deliveryTimestamp", TimestampType()),
    ]
)

"""The default row."""

SELECTABLE = StructType([*ROW_SCHEMA.fields, StructField("systemProperties", MapType(StringType(), StringType()))])
"""What may be asked for: also what comes only when it is named, for a second map costs a tenth of the speed or more."""


def row_schema(columns: Sequence[str] | None) -> StructType:
    """The row of these columns, the default row when None.

    Raises OptionError for one that does not exist or comes twice.
    """
    if columns is None:
        return ROW_SCHEMA
    for name in columns:
        if name not in SELECTABLE.names:
            raise OptionError(f"Option columns names {name!r}. There are: {', '.join(SELECTABLE.names)}.")
        if columns.count(name) > 1:
            raise OptionError(f"Option columns names {name} twice. Name it once and copy it afterwards.")
    return StructType([SELECTABLE[name] for name in columns])


def check_schema(schema: StructType, columns: Sequence[str] | None = None) -> None:
    """Accepts any selection of what may be asked for, in any order; only these columns travel from the broker.

    Raises OptionError for a column that does not exist, comes twice, has another type, or may not be null, and for
    others than option ``columns`` names.
    """
    if columns is not None and schema.names != row_schema(columns).names:
        raise OptionError(
            f"The schema names {', '.join(schema.names)} and option columns {', '.join(columns)}. Give one of the two."
        )
    if not schema.fields:
        raise OptionError(f"The schema names no column. There are: {_spelled(SELECTABLE)}.")
    offered = {field.name: field for field in SELECTABLE.fields}
    for field in schema.fields:
        if field.name not in offered:
            raise OptionError(f"The schema names column {field.name}. There are: {_spelled(SELECTABLE)}.")
        if schema.names.count(field.name) > 1:
            raise OptionError(f"The schema names column {field.name} twice. Name it once and copy it afterwards.")
        if (field.dataType, field.nullable) != (offered[field.name].dataType, True):
            raise OptionError(
                f"The schema has {_spelled(StructType([field]))}; the source gives "
                f"{_spelled(StructType([offered[field.name]]))}, which may be null. Select it so and cast afterwards."
            )


def _spelled(schema: StructType) -> str:
    return ", ".join(
        f"{field.name} {field.dataType.simpleString().upper()}{'' if field.nullable else ' NOT NULL'}"
        for field in schema.fields
    )
