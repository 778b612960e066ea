"""The lag of a query is computed from the progress that Spark reports."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqpull.lag import QueryLag, QueueLag, lag
from pyspark_rmqpull.lag.query_lag import TABLE_ROWS_MAX
from pyspark_rmqpull.planning.offsets import QueueOffsets
from rmqpull_client.model import MessageQueue

A0, A1, B0 = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1), MessageQueue("orders", "b", 0)


def offsets(*numbers: int | None) -> dict[str, Any]:
    """An offset of A0, A1 and B0, in this order; None leaves a queue out."""
    named = zip((A0, A1, B0), numbers, strict=False)
    return QueueOffsets({queue: number for queue, number in named if number is not None}).to_json()


def source(end: Any, latest: Any) -> dict[str, Any]:
    return {"description": "a class", "startOffset": "null", "endOffset": end, "latestOffset": latest}


def progress(*sources: Any) -> dict[str, Any]:
    return {"id": "51f0", "name": "billing", "batchId": 7, "timestamp": "2026-03-01T12:00:00.000Z", "sources": sources}


@pytest.mark.parametrize("written", [lambda form: form, json.dumps], ids=["as JSON", "as text"])
@pytest.mark.parametrize(
    ("end", "latest", "numbers"),
    [
        ((1, 2), (3, 6), ("2", "4", "3.0")),
        ((3, 6), (3, 6), ("0", "0", "0.0")),
        ((0,), (14,), ("14", "14", "14.0")),
        ((5, 2), (3, 6), ("0", "4", "2.0")),  # a queue that ends earlier than before
        ((1, 2, 9), (3, 6), ("2", "4", "3.0")),  # a deleted queue
        ((1, None, 4), (3, 6, 4), ("0", "2", "1.0")),  # a queue that is newer than the batch
    ],
)
def test_the_numbers_are_those_of_kafkas_source(written: Any, end: Any, latest: Any, numbers: Any) -> None:
    """Acceptance case 34."""
    found = lag(progress(source(written(offsets(*end)), written(offsets(*latest)))))
    names = ("minOffsetsBehindLatest", "maxOffsetsBehindLatest", "avgOffsetsBehindLatest")
    assert found.metrics == dict(zip(names, numbers, strict=True))


@pytest.mark.parametrize(
    ("end", "latest"),
    [
        *[(absent, offsets(3, 6)) for absent in (None, "null", "None", "")],
        *[(offsets(1, 2), absent) for absent in (None, "null", "None", "")],
        (offsets(), offsets()),
    ],
)
def test_without_offsets_there_are_no_numbers(end: Any, latest: Any) -> None:
    """Acceptance case 34: null offsets."""
    found = lag(progress(source(end, latest)))
    assert (found.metrics, found.queues, found.offsets_behind_latest, found.rows_lost) == ({}, (), 0, 0)


def test_each_queue_has_its_own_lag_and_its_lost_rows() -> None:
    latest = {**offsets(3, 6), "rowsLost": {"orders": {"a": {"1": 5}}}}
    found = lag(progress(source(offsets(1, 2), latest)))
    assert found.queues == (QueueLag(0, A0, 1, 3), QueueLag(0, A1, 2, 6, rows_lost=5))
    assert [queue.offsets_behind for queue in found.queues] == [2, 4]
    assert (found.offsets_behind_latest, found.rows_lost) == (6, 5)
    assert (found.query_id, found.name, found.batch_id, found.timestamp) == (
        *("51f0", "billing", 7),
        "2026-03-01T12:00:00.000Z",
    )


FOREIGN = [
    source('{"orders":{"0":12}}', '{"orders":{"0":20}}'),  # Kafka
    source({"logOffset": 3}, None),  # files
    source("17", "20"),  # rate
    source({"version": 1, "offsets": {"orders": {"a": {"x": 1}}}}, {"version": 1, "offsets": {"orders": 5}}),
    source("[" * 100_000, "["),
    source('{"version":1,"offsets":{"orders":{"a":{"0":Infinity}}}}', "{}"),
    {},
    None,
    5,
]


@pytest.mark.parametrize("foreign", FOREIGN, ids=range(len(FOREIGN)))
def test_other_sources_are_ignored_and_keep_their_index(foreign: Any) -> None:
    ours = source(offsets(1, 2), offsets(3, 6))
    assert lag(progress(foreign)).queues == ()
    found = lag(progress(ours, foreign, source(offsets(1), offsets(9))))
    assert [(queue.source, queue.queue, queue.offsets_behind) for queue in found.queues] == [
        (0, A0, 2),
        (0, A1, 4),
        (2, A0, 8),
    ]
    assert found.of_source(0) == lag(progress(ours))
    assert found.of_source(1).queues == ()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["version", "offsets", "starts", "creationIds", "rowsLost", "orders", "a", "0"]), inner
        )
    ),
    max_leaves=12,
)


@given(anything, anything)
def test_no_offset_of_any_form_is_an_error(end: Any, latest: Any) -> None:
    assert lag(progress(source(end, latest))).offsets_behind_latest >= 0
    found = lag(progress(source({"version": 1, "offsets": end}, {"version": 1, "offsets": latest})))
    assert (found.rows_lost or 0) >= 0


def test_the_lag_of_a_query_is_that_of_its_last_progress() -> None:
    newest = progress(source(offsets(1, 2), offsets(3, 6)))
    assert lag(SimpleNamespace(lastProgress=newest)) == lag(newest)
    assert lag(SimpleNamespace(lastProgress=None)) == lag(None) == QueryLag()


@pytest.mark.parametrize("other", ["billing", 5, [1]])
def test_other_types_are_refused(other: Any) -> None:
    with pytest.raises(TypeError, match=f"takes a streaming query or its progress, not {type(other).__name__}"):
        lag(other)


def test_a_lag_is_printed_as_a_table() -> None:
    latest = {**offsets(3, 1206, 8), "rowsLost": {"orders": {"a": {"1": 5}}}}
    assert str(lag(progress(source(offsets(1, 2, 8), latest)))).splitlines() == [
        "query billing, batch 7: queues 3, behind latest 1206 (min 0, max 1204, avg 402.0), rows lost 5",
        "source  queue       next  latest  behind  lost",
        "0       orders/a/0     1       3       2     0",
        "0       orders/a/1     2    1206    1204     5",
        "0       orders/b/0     8       8       0     0",
    ]


def test_rows_that_nobody_counts_are_not_shown_as_none_lost() -> None:
    found = lag(progress(source(offsets(1, 2), {**offsets(3, 6), "rowsLost": None})))
    assert found.rows_lost is None
    first, _, *rows = str(found).splitlines()
    assert first.endswith(", rows lost not counted")
    assert [row.endswith("  not counted") for row in rows] == [True, True]


def test_of_many_queues_those_with_the_largest_lag_are_printed() -> None:
    queues = tuple(QueueLag(0, MessageQueue("orders", "a", number), 0, number) for number in range(1000))
    _, _, *rows, rest = str(QueryLag(queues, "51f0")).splitlines()
    assert [int(row.split()[4]) for row in rows] == list(range(1000 - TABLE_ROWS_MAX, 1000))
    assert rest == f"and {1000 - TABLE_ROWS_MAX} more queues"


def test_a_query_without_offsets_has_no_lag_yet() -> None:
    assert str(lag(None)) == "query ?: no lag is known yet"
    assert str(lag(progress())) == "query billing: no lag is known yet"
