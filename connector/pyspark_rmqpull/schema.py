"""The columns of a row of the source, and the selections of them that a user can make."""

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

SELECTABLE = StructType(
    [
        *ROW_SCHEMA.fields,
        StructField("systemProperties", MapType(StringType(), StringType())),
        StructField("priority", IntegerType()),
    ]
)
"""All columns that a user can select. A second map costs a tenth of the speed or more, so it is not in the default, nor
is the priority, which is read from it."""


def make_row_schema(columns: Sequence[str] | None) -> StructType:
    """Returns the schema of these columns, or of the default row for None.

    Raises OptionError for a column that does not exist or is named twice.
    """
    if columns is None:
        return ROW_SCHEMA
    for name in columns:
        if name not in SELECTABLE.names:
            raise OptionError(f"Option columns names {name!r}. Available columns: {', '.join(SELECTABLE.names)}.")
        if columns.count(name) > 1:
            raise OptionError(f"Option columns names {name} twice. Name it once, and copy the column afterwards.")
    return StructType([SELECTABLE[name] for name in columns])


def check_schema(schema: StructType, columns: Sequence[str] | None = None) -> None:
    """Accepts a user's schema with any selection of columns, in any order.

    Raises OptionError for a column that does not exist, occurs twice, has another type or is NOT NULL, and for a
    schema that differs from option ``columns``.
    """
    if columns is not None and schema.names != make_row_schema(columns).names:
        raise OptionError(
            f"The schema names {', '.join(schema.names)}, but option columns names {', '.join(columns)}. "
            "Use only one of them."
        )
    if not schema.fields:
        raise OptionError(f"The schema has no columns. Available columns: {_describe(SELECTABLE)}.")
    available = {field.name: field for field in SELECTABLE.fields}
    for field in schema.fields:
        if field.name not in available:
            raise OptionError(
                f"The schema has unknown column {field.name}. Available columns: {_describe(SELECTABLE)}."
            )
        if schema.names.count(field.name) > 1:
            raise OptionError(f"The schema names column {field.name} twice. Name it once, and copy it afterwards.")
        if (field.dataType, field.nullable) != (available[field.name].dataType, True):
            raise OptionError(
                f"The schema has {_describe(StructType([field]))}, but the source returns "
                f"{_describe(StructType([available[field.name]]))}, which may be null. "
                "Use this type, and cast the column afterwards."
            )


def _describe(schema: StructType) -> str:
    return ", ".join(
        f"{field.name} {field.dataType.simpleString().upper()}{'' if field.nullable else ' NOT NULL'}"
        for field in schema.fields
    )
