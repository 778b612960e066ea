"""One pull evaluates a limited number of expressions, and the next one continues there: repeated pulls find every
match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from rmqpull_broker.core.filters import message_filter as filters
from rmqpull_broker.core.filters.budget import COMPILE_COST, COST_MAX, FilterBudget
from rmqpull_broker.core.filters.message_filter import FilterTooComplex, MessageFilter, SqlFilter, parse_tags
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.pulling.column_pull import ColumnPull, ColumnRead
from rmqpull_broker.core.pulling.message_pull import pull_messages
from rmqpull_broker.core.pulling.parking import Arrivals, ParkedPull, ParkedPulls
from rmqpull_broker.core.pulling.record_pull import RecordPulls
from tests.harness.core import CoreHarness

COMPARISONS = 500
HEAVY = SqlFilter(
    " AND ".join(f"number <> {1_000_000 + number}" for number in range(COMPARISONS)) + " AND number > 450"
)
"""Each row costs 1,500 nodes and more."""
ROWS = 600
MATCHES = list(range(451, ROWS))


@pytest.fixture(scope="module")
def core() -> CoreHarness:
    """A queue whose messages all differ."""
    core = CoreHarness()
    core.topic()
    for first in range(0, ROWS, 200):
        core.send(*(Message(b"x", "ID", properties={"number": str(number)}) for number in range(first, first + 200)))
    return core


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts what is evaluated: a list with the nodes of each evaluation."""
    counts: list[int] = []
    is_true = filters._is_true

    def count(tree: Any, properties: Any) -> bool:
        counts.append(tree.node_count)
        return is_true(tree, properties)

    monkeypatch.setattr(filters, "_is_true", count)
    return counts


def list_offsets(batches: Sequence[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("queueOffset").to_pylist()]


def pull_rows(core: CoreHarness, offset: int) -> tuple[list[int], int]:
    pulled = pull_messages(core.state, core.queue(), offset, 32, HEAVY)
    return list_offsets(pulled.batches), pulled.next_offset


def pull_in_columns(core: CoreHarness, offset: int) -> tuple[list[int], int]:
    (pulled,) = ColumnRead(core.state, HEAVY, 10_000, 1 << 20).pull([ColumnPull(core.queue(), offset)])
    return list_offsets(pulled.batches), pulled.next_offset


def make_record_pull() -> Callable[[CoreHarness, int], tuple[list[int], int]]:
    kept: list[RecordPulls] = []

    def pull_records(core: CoreHarness, offset: int) -> tuple[list[int], int]:
        kept[:] = kept or [RecordPulls(core.state)]
        found = kept[0].pull(core.queue(), offset, 32, HEAVY)
        return list(range(found.next_offset - found.row_count, found.next_offset)), found.next_offset

    return pull_records


@pytest.mark.parametrize("pull", [pull_rows, pull_in_columns, make_record_pull()], ids=["rows", "columns", "records"])
def test_pulls_with_a_large_expression_go_on_where_the_budget_ended(
    core: CoreHarness, evaluated: list[int], pull: Callable[[CoreHarness, int], tuple[list[int], int]]
) -> None:
    found, offset, most = list[int](), 0, 0
    while offset < ROWS:
        evaluated.clear()
        matches, next_offset = pull(core, offset)
        assert next_offset > offset
        found, offset, most = found + matches, next_offset, max(most, sum(evaluated))
    assert found == MATCHES
    assert COST_MAX / 2 < most < COST_MAX + HEAVY.node_count


@pytest.mark.parametrize("property_count", [8, 110])
def test_pulls_of_records_find_every_match_when_columns_cost_more_than_rows(
    core: CoreHarness, monkeypatch: pytest.MonkeyPatch, property_count: int
) -> None:
    """What is found in a piece is kept for other pulls, so it must be all of it."""
    monkeypatch.setattr(filters, "PROPERTY_VALUES_MAX", 10 * (property_count + 1))
    missing = " OR ".join(f"p{number} = 1" for number in range(property_count))
    chosen, pulls = SqlFilter(f"{missing} OR number > 450"), RecordPulls(core.state)
    for _ in range(2):
        count, offset = 0, 0
        while offset < ROWS:
            found = pulls.pull(core.queue(), offset, 32, chosen)
            assert found.next_offset > offset
            count, offset = count + found.row_count, found.next_offset
        assert count == len(MATCHES)


def make_batch(numbers: list[int]) -> pa.RecordBatch:
    rows = (Message(b"x", "ID", properties={"number": str(number)}) for number in numbers)
    return columns.from_rows([StoredMessage(row, at, 1, "host") for at, row in enumerate(rows)])


def test_equal_rows_are_evaluated_once_and_cost_once(evaluated: list[int]) -> None:
    batch = make_batch([1, 2, 950] * 5_000)
    ((part, mask),) = FilterBudget(HEAVY).split([batch])
    assert mask is not None
    assert (part.num_rows, mask.true_count, len(evaluated)) == (15_000, 5_000, 3)


@pytest.mark.parametrize("message_filter", [parse_tags("a"), parse_tags("*"), SqlFilter("1 = 1")])
def test_other_filters_see_whole_batches(message_filter: MessageFilter) -> None:
    batch = make_batch([1, 2, 3])
    assert [part.num_rows for part, _ in FilterBudget(message_filter).split([batch, batch])] == [3, 3]


def test_an_expression_of_many_properties_finds_them_for_a_part_of_the_rows(evaluated: list[int]) -> None:
    many = SqlFilter(" OR ".join(f"p{number} = 1" for number in range(filters.PROPERTIES_MAX)))
    batch = make_batch(list(range(1_900)))
    mask, cost = many.evaluate(batch, 1 << 40)
    assert len(mask) == filters.PROPERTY_VALUES_MAX / filters.PROPERTIES_MAX == 500
    assert cost == many.node_count + filters.PROPERTIES_MAX * filters.COLUMN_COST
    assert len(many.mask(batch)) == 1_900


def test_an_expression_of_too_many_properties_is_refused() -> None:
    with pytest.raises(FilterTooComplex, match="has 201 properties, more than 200"):
        SqlFilter(" OR ".join(f"p{number} = 1" for number in range(filters.PROPERTIES_MAX + 1)))


def test_an_arrival_looks_for_some_pulls_and_wakes_the_others_for_a_look_of_their_own(evaluated: list[int]) -> None:
    parked, queue = ParkedPulls(), MessageQueue("orders", "broker-a", 0)
    different = [SqlFilter(f"{HEAVY.expression} AND number <> {-number}") for number in range(20)]
    light = SqlFilter("number = 7")
    for each in (light, *different):
        parked.park(ParkedPull((queue,), each, 60_000), 0)
    woken = parked.find_woken(queue, Arrivals(batch=make_batch([1])), 0)
    assert 0 not in woken, "an expression for which there is enough is evaluated"
    assert len(woken) > 10
    assert sum(evaluated) <= COST_MAX / COMPILE_COST + HEAVY.node_count
