"""The row of the source, and which selections of it are taken."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from pyspark_rmqpull.schema import ROW_SCHEMA, check_schema, make_row_schema
from rmqpull_client.errors import OptionError


def columns(**types: DataType) -> StructType:
    return StructType([StructField(name, data_type) for name, data_type in types.items()])


def refusal(schema: StructType) -> str:
    with pytest.raises(OptionError) as refused:
        check_schema(schema)
    return str(refused.value)


def test_the_default_row_has_these_columns() -> None:
    """Acceptance case 38; ``systemProperties`` is never in the default row."""
    assert [f"{field.name} {field.dataType.simpleString()}" for field in ROW_SCHEMA] == [
        "topic string",
        "brokerName string",
        "queueId int",
        "queueOffset bigint",
        "msgId string",
        "tags string",
        "keys array<string>",
        "body binary",
        "properties map<string,string>",
        "bornTimestamp timestamp",
        "bornHost string",
        "storeTimestamp timestamp",
        "storeHost string",
        "reconsumeTimes int",
        "messageGroup string",
        "deliveryTimestamp timestamp",
    ]
    assert all(field.nullable for field in ROW_SCHEMA)


@pytest.mark.parametrize(
    "schema",
    [
        ROW_SCHEMA,
        columns(body=BinaryType()),
        columns(queueOffset=LongType(), body=BinaryType(), topic=StringType()),
        columns(systemProperties=MapType(StringType(), StringType()), body=BinaryType()),
        StructType([StructField("body", BinaryType(), metadata={"comment": "the payload"})]),
    ],
)
def test_a_selection_in_any_order_is_accepted(schema: StructType) -> None:
    check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (columns(), "The schema has no columns. Available columns: topic STRING, brokerName STRING, queueId INT, "),
        (
            columns(value=BinaryType()),
            "The schema has unknown column value. Available columns: topic STRING, ",
        ),
        (
            columns(Body=BinaryType()),
            "The schema has unknown column Body. Available columns: topic STRING, ",
        ),
        (
            columns(body=StringType()),
            "The schema has body STRING, but the source returns body BINARY, which may be",
        ),
        (
            columns(properties=MapType(StringType(), LongType())),
            "The schema has properties MAP<STRING,BIGINT>, but the source returns properties MAP<STRING,STRING>, ",
        ),
        (
            columns(systemProperties=StringType()),
            "The schema has systemProperties STRING, but the source returns systemProperties MAP<STRING,STRING>, ",
        ),
        (
            StructType([StructField("queueOffset", LongType(), nullable=False)]),
            "The schema has queueOffset BIGINT NOT NULL, but the source returns queueOffset BIGINT, which may be null.",
        ),
        (
            StructType([StructField("body", BinaryType()), StructField("body", BinaryType())]),
            "The schema names column body twice.",
        ),
    ],
)
def test_a_schema_that_the_source_cannot_return_is_refused(schema: StructType, complaint: str) -> None:
    assert refusal(schema).startswith(complaint)


def test_columns_by_name_are_a_selection_in_their_order() -> None:
    assert make_row_schema(None) == ROW_SCHEMA
    assert make_row_schema(("body", "topic")).names == ["body", "topic"]
    assert make_row_schema(("systemProperties",)) == columns(systemProperties=MapType(StringType(), StringType()))


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (("value",), r"names 'value'. Available columns: topic, .*, deliveryTimestamp, systemProperties, priority\."),
        (("body", "body"), "names body twice"),
        (("",), "names ''"),
    ],
)
def test_bad_columns_are_refused(columns: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(OptionError, match=f"Option columns {complaint}"):
        make_row_schema(columns)


def test_a_schema_and_columns_must_be_the_same() -> None:
    check_schema(make_row_schema(("body",)), ("body",))
    with pytest.raises(OptionError, match="The schema names body, but option columns names tags"):
        check_schema(make_row_schema(("body",)), ("tags",))
