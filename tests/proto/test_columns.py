"""The Arrow schemas, and how streams are written."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_proto.columns import (
    PROPERTIES,
    PUBLISH_SCHEMA,
    PULL_SCHEMA,
    find_names,
    select,
    select_pulled,
    write_stream,
)

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
        "priority int32",
    ]


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


@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "bc", ""]), max_size=3) | st.none(), max_size=6),
    st.integers(0, 3),
    st.integers(0, 6),
)
def test_names_are_all_of_those_that_maps_have_and_no_others(
    rows: list[list[str] | None], first: int, count: int
) -> None:
    maps = pa.array([row if row is None else [(name, None) for name in row] for row in rows], PROPERTIES)
    wanted = {name for row in rows[first : first + count] for name in row or ()}
    assert set(find_names(maps.slice(first, count)).to_pylist()) == wanted


def test_names_that_all_maps_repeat_are_returned_once() -> None:
    maps = pa.array([[("zz", "")], *[[("b", str(row)), ("a", None)] for row in range(100)]], PROPERTIES)
    assert find_names(maps.slice(1)).to_pylist() == ["b", "a"]
    assert len(find_names(maps)) == 201
    assert find_names(pa.array([[("ab", "")], [("ac", "")]], PROPERTIES)).to_pylist() == ["ab", "ac"]
