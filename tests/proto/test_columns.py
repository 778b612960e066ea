"""The Arrow schemas, and streams to and from bytes."""

import re
import struct

import pyarrow as pa
import pytest

from rmqpull_proto.columns import PUBLISH_SCHEMA, PULL_SCHEMA, check, read_stream, select, select_pulled, write_stream

BATCH = pa.record_batch(
    {"body": pa.array([b"one", None]), "keys": pa.array([["k1", "k2"], None], PULL_SCHEMA.field("keys").type)}
)


def described(schema: pa.Schema) -> list[str]:
    assert all(field.nullable for field in schema)
    return [f"{field.name} {field.type}" for field in schema]


def test_pull_schema() -> None:
    assert described(PULL_SCHEMA) == [
        "queueOffset int64",
        "msgId string",
        "tags string",
        "keys list<element: string>",
        "body binary",
        "properties map<string, string>",
        "bornTimestamp timestamp[us, tz=UTC]",
        "bornHost string",
        "storeTimestamp timestamp[us, tz=UTC]",
        "storeHost string",
        "reconsumeTimes int32",
        "messageGroup string",
        "deliveryTimestamp timestamp[us, tz=UTC]",
        "bodyEncoding int32",
    ]


def test_system_properties_are_sent_only_on_request() -> None:
    assert select_pulled([]) == PULL_SCHEMA
    assert described(select_pulled(["systemProperties", "tags"])) == [
        "tags string",
        "systemProperties map<string, string>",
    ]
    with pytest.raises(ValueError, match="No such column: traceContext"):
        select_pulled(["traceContext"])


def test_publish_schema() -> None:
    assert described(PUBLISH_SCHEMA) == [
        "body binary",
        "tags string",
        "keys list<element: string>",
        "properties map<string, string>",
        "messageGroup string",
        "deliveryTimestamp timestamp[us, tz=UTC]",
        "bornTimestamp timestamp[us, tz=UTC]",
        "bornHost string",
        "msgId string",
        "bodyEncoding int32",
        "brokerName string",
        "queueId int32",
    ]


def test_a_written_stream_can_be_read() -> None:
    assert read_stream(write_stream(BATCH.schema, [BATCH, BATCH.slice(1)])) == [BATCH, BATCH.slice(1)]


def test_a_stream_without_batches_and_empty_data_have_no_batches() -> None:
    assert read_stream(write_stream(PULL_SCHEMA, [])) == read_stream(b"") == []


def test_a_buffer_is_read_in_place() -> None:
    buffer = pa.py_buffer(write_stream(BATCH.schema, [BATCH]))
    body = read_stream(buffer)[0]["body"].buffers()[2]
    assert buffer.address <= body.address < buffer.address + buffer.size


def batches_left(data: bytes) -> list[pa.RecordBatch] | None:
    try:
        return read_stream(data)
    except ValueError:
        return None


def test_a_truncated_stream_is_refused_or_lacks_whole_batches() -> None:
    data = write_stream(BATCH.schema, [BATCH])
    cut = [batches_left(data[:length]) for length in range(1, len(data))]
    assert None in cut
    assert all(left in (None, [], [BATCH]) for left in cut)


def test_a_batch_of_another_schema_is_not_written() -> None:
    with pytest.raises(ValueError, match="schema"):
        write_stream(PULL_SCHEMA, [BATCH])


@pytest.mark.parametrize(
    ("names", "selected"),
    [
        (["body", "queueOffset"], ["queueOffset", "body"]),
        (["tags", "tags"], ["tags"]),
        ([], PULL_SCHEMA.names),
    ],
)
def test_requested_columns_have_the_order_of_the_schema(names: list[str], selected: list[str]) -> None:
    assert select(PULL_SCHEMA, names).names == selected


def test_an_unknown_column_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"No such column: bodies. There are body, tags, keys,"):
        select(PUBLISH_SCHEMA, ["body", "bodies"])


def test_a_part_of_the_schema_in_any_order_passes() -> None:
    check(BATCH.select(["keys", "body"]), PUBLISH_SCHEMA, required=["body"])


# The second value would start far beyond the data, which the first and the last offset do not show.
WILD_OFFSETS = struct.pack("<3i", 0, 1 << 30, 1)
OUT_OF_BOUNDS = pa.Array.from_buffers(pa.binary(), 2, [None, pa.py_buffer(WILD_OFFSETS), pa.py_buffer(b"x")])


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"tags": pa.array(["a"])}, "Missing column: body."),
        ({"body": pa.array(["text"])}, "Column body must be binary, got string."),
        ({"body": pa.array([b"x"]), "topic": pa.array(["a"])}, "No such column: topic."),
        ({"body": OUT_OF_BOUNDS}, "out of bounds"),
    ],
)
def test_a_batch_that_cannot_be_published_is_refused(columns: dict[str, pa.Array], complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        check(pa.record_batch(columns), PUBLISH_SCHEMA, required=["body"])


def test_a_batch_without_columns_lacks_only_the_required_ones() -> None:
    nothing = BATCH.select([])
    check(nothing, PUBLISH_SCHEMA)
    with pytest.raises(ValueError, match="Missing column: body"):
        check(nothing, PUBLISH_SCHEMA, required=["body"])


def test_a_column_given_twice_is_refused() -> None:
    twice = pa.RecordBatch.from_arrays([BATCH["body"], BATCH["body"]], ["body", "body"])
    with pytest.raises(ValueError, match="different names"):
        check(twice, PUBLISH_SCHEMA)
