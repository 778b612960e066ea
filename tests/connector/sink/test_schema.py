"""The sink takes some columns, ignores some, and refuses others with advice (acceptance cases 65 and 66)."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.schema import ROW_SCHEMA
from pyspark_rmqpull.sink.schema import check_sink_schema
from rmqpull_client.errors import OptionError

TAKEN = (
    "body BINARY or STRING, topic STRING, tags STRING, keys STRING or ARRAY<STRING>, properties MAP<STRING,STRING>, "
    "messageGroup STRING, deliveryTimestamp TIMESTAMP, priority INT, brokerName STRING, queueId INT"
)


TYPES: dict[str, DataType] = {
    "STRING": StringType(),
    "BINARY": BinaryType(),
    "INT": IntegerType(),
    "TIMESTAMP": TimestampType(),
    "ARRAY<STRING>": ArrayType(StringType()),
    "ARRAY<STRING>!": ArrayType(StringType(), containsNull=False),
    "MAP<STRING,STRING>": MapType(StringType(), StringType()),
    "MAP<STRING,INT>": MapType(StringType(), IntegerType()),
}


def check(columns: str, **options: str) -> None:
    fields = [column.split() for column in columns.split(", ")]
    schema = StructType([StructField(name, TYPES[kind]) for name, kind in fields])
    check_sink_schema(schema, SinkOptions.from_options({"endpoints": "a:1"} | options))


@pytest.mark.parametrize(
    "columns",
    [
        "body STRING, topic STRING",
        "body BINARY, topic STRING, keys ARRAY<STRING>!, properties MAP<STRING,STRING>",
        "topic STRING, body BINARY, keys STRING, tags STRING, messageGroup STRING, deliveryTimestamp TIMESTAMP",
        "topic STRING, body BINARY, brokerName STRING, queueId INT, systemProperties MAP<STRING,STRING>",
    ],
)
def test_columns_of_a_message_are_taken(columns: str) -> None:
    check(columns)


def test_a_row_of_the_source_is_taken_as_it_is() -> None:
    check_sink_schema(ROW_SCHEMA, SinkOptions.from_options({"endpoints": "a:1"}))


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ("body STRING", "The rows have no topic. Set option topic, or add a column topic."),
        ("topic STRING", f"Column body is missing. The sink takes {TAKEN}."),
        ("topic STRING, text STRING", f"The sink does not know column text. It takes {TAKEN}."),
        (
            "topic STRING, value STRING",
            "The sink does not know column value. Spark's Kafka sink calls it value; here it is body. "
            f"It takes {TAKEN}.",
        ),
        ("topic INT, body STRING", "Column topic is INT; it must be STRING."),
        ("topic STRING, body INT", "Column body is INT; it must be BINARY or STRING."),
        ("topic STRING, body STRING, keys INT", "Column keys is INT; it must be STRING or ARRAY<STRING>."),
        ("topic STRING, body STRING, queueId STRING", "Column queueId is STRING; it must be INT."),
        (
            "topic STRING, body STRING, properties MAP<STRING,INT>",
            "Column properties is MAP<STRING,INT>; it must be MAP<STRING,STRING>.",
        ),
        ("topic STRING, body STRING, body STRING", "There are two columns body. Keep one of them."),
    ],
)
def test_other_columns_are_refused_with_advice(columns: str, sentence: str) -> None:
    with pytest.raises(OptionError) as refused:
        check(columns)
    assert str(refused.value) == sentence


def test_queue_selector_explicit_needs_both_queue_columns() -> None:
    with pytest.raises(OptionError, match="needs the columns brokerName and queueId"):
        check("topic STRING, body STRING, queueId INT", queueSelector="explicit")
