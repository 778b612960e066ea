"""The table of how even writes leave queues (docs/writing-details.md) has what sink and broker really do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from pyspark_rmqpull.sink.deliveries import ROWS_PER_CALL_MAX
from pyspark_rmqpull.sink.slices import SliceChoice
from rmqpull_broker.core.sending.queue_selection import QueueSelector
from rmqpull_client.transports.port import Producer
from tests.harness.fake_producer import FakeProducer

PAGE = Path(__file__).parents[2] / "docs" / "writing-details.md"
ROW = re.compile(r"\| (\d+) \| ([\d,]+) \| (.+) \|")


class Balance(NamedTuple):
    """The rows of the fullest queue, as a ratio to the mean of all queues, and the mean number of rows of a part."""

    ratio: float
    part_rows: int


def measure(queue_count: int, row_count: int, rows_min: int | None) -> Balance:
    """Writes rows as one task in calls of the largest size, to a topic that has none."""
    choice = SliceChoice(cast("Producer", FakeProducer(queue_count=queue_count)), rows_min)
    selector, shares, part_count = QueueSelector(), [0] * queue_count, 0
    for begin in range(0, row_count, ROWS_PER_CALL_MAX):
        parts = [("orders", min(ROWS_PER_CALL_MAX, row_count - begin))]
        choice.count_rows(parts)
        slice_rows_min = choice.choose_slices(parts).get("orders", 0)
        for queue, count in selector.take_slices("orders", queue_count, parts[0][1], slice_rows_min):
            shares[queue] += count
            part_count += 1
    return Balance(max(shares) / (row_count / queue_count), round(row_count / part_count))


def read_rows() -> list[tuple[int, int, str]]:
    section = PAGE.read_text(encoding="utf-8").partition("## How even queues become")[2].partition("\n## ")[0]
    return [(int(queues), int(rows.replace(",", "")), cells) for queues, rows, cells in ROW.findall(section)]


def test_the_table_has_small_and_large_writes() -> None:
    assert [row[:2] for row in read_rows()] == [
        (queue_count, row_count)
        for queue_count in (16, 64)
        for row_count in (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
    ]


@pytest.mark.parametrize(("queue_count", "row_count", "cells"), read_rows(), ids=str)
def test_a_row_of_the_table_is_what_a_write_does(queue_count: int, row_count: int, cells: str) -> None:
    measured = [measure(queue_count, row_count, rows_min) for rows_min in (1, None, 1_024)]
    assert cells == " | ".join(f"{ratio:.2f} | {part_rows:,}" for ratio, part_rows in measured)
