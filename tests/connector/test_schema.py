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

from pyspark_rmqpull.schema import ROW_SCHEMA, check_schema, row_schema
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
def test_a_selection_in_any_order_is_taken(schema: StructType) -> None:
    check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (columns(), "The schema names no column. There are: topic STRING, brokerName STRING, queueId INT, "),
        (columns(value=BinaryType()), "The schema names column value. There are: topic STRING, "),
        (columns(Body=BinaryType()), "The schema names column Body. There are: topic STRING, "),
        (columns(body=StringType()), "The schema has body STRING; the source gives body BINARY, which may be null."),
        (
            columns(properties=MapType(StringType(), LongType())),
            "The schema has properties MAP<STRING,BIGINT>; the source gives properties MAP<STRING,STRING>, ",
        ),
        (
            columns(systemProperties=StringType()),
            "The schema has systemProperties STRING; the source gives systemProperties MAP<STRING,STRING>, ",
        ),
        (
            StructType([StructField("queueOffset", LongType(), nullable=False)]),
            "The schema has queueOffset BIGINT NOT NULL; the source gives queueOffset BIGINT, which may be null.",
        ),
        (
            StructType([StructField("body", BinaryType()), StructField("body", BinaryType())]),
            "The schema names column body twice.",
        ),
    ],
)
def test_what_the_source_does_not_give_is_refused(schema: StructType, complaint: str) -> None:
    assert refusal(schema).startswith(complaint)


def test_columns_by_name_are_a_selection_in_their_order() -> None:
    assert row_schema(None) == ROW_SCHEMA
    assert row_schema(("body", "topic")).names == ["body", "topic"]
    assert row_schema(("systemProperties",)) == columns(systemProperties=MapType(StringType(), StringType()))


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (("value",), r"names 'value'. There are: topic, .*, deliveryTimestamp, systemProperties\."),
        (("body", "body"), "names body twice"),
        (("",), "names ''"),
    ],
)
def test_bad_columns_are_refused(columns: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(OptionError, match=f"Option columns {complaint}"):
        row_schema(columns)


def test_a_schema_beside_columns_must_say_the_same() -> None:
    check_schema(row_schema(("body",)), ("body",))
    with pytest.raises(OptionError, match="The schema names body and option columns tags"):
        check_schema(row_schema(("body",)), ("tags",))
