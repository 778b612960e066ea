"""The bounds of a run, and its table."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bench.hostile.figures import (
    HEAD,
    P99_MS_MAX,
    Measured,
    find_p99_ms_max,
    list_misses,
    make_document,
    markdown,
    percentile,
)

WELL = Measured("churn", "connections", "one at a time", 100, 1.0, 5.0, 9.0, 90.0, 95.0, 92.0, 0.5, 0.4, 50)
ALONE = [2.0, 3.0, 2.5]


@pytest.mark.parametrize(("percent", "value"), [(50, 50), (99, 99), (100, 100), (1, 1)])
def test_a_percentile_is_one_of_the_values(percent: int, value: int) -> None:
    assert percentile([*range(100, 0, -1)], percent) == value


def test_the_slowest_of_few_values_counts_as_their_p99() -> None:
    assert percentile([1.0, 1.0, 900.0], 99) == 900.0


@pytest.mark.parametrize(
    ("alone", "bound"),
    [([2.0, 3.0, 2.5], P99_MS_MAX), ([30.0], P99_MS_MAX), ([31.0, 40.0, 35.0], 70.0)],
)
def test_the_bound_is_twice_what_the_client_needs_alone_but_not_less_than_60_ms(
    alone: list[float], bound: float
) -> None:
    assert find_p99_ms_max(alone) == bound


@pytest.mark.parametrize(
    ("measured", "misses"),
    [
        (WELL, []),
        (replace(WELL, p99_ms=60.0), []),
        (replace(WELL, p99_ms=60.1), ["p99"]),
        (replace(WELL, after_mb=110.0), []),
        (replace(WELL, after_mb=110.1), ["memory"]),
        (replace(WELL, during_mb=400.0), []),
        (replace(WELL, lost=1), ["lost messages"]),
        (replace(WELL, failed="it ended"), ["failed: it ended"]),
    ],
)
def test_each_bound_is_checked(measured: Measured, misses: list[str]) -> None:
    assert list_misses(measured, find_p99_ms_max(ALONE)) == misses


def test_the_page_has_a_line_for_each_attack_and_says_how_many_are_within_the_bounds() -> None:
    attacks = [WELL, replace(WELL, name="pulls", p99_ms=200.0)]
    kept = json.loads(json.dumps(make_document({"cores": "2 of 4"}, {"seconds": 8}, ALONE, attacks)))
    page = markdown(kept)
    lines = page.splitlines()
    assert lines[0] == f"| {' | '.join(HEAD)} |"
    assert lines[2].startswith("| churn | connections |")
    assert lines[2].endswith("| 2 | 0 of 50 | met |")
    assert lines[3].endswith("| p99 |")
    assert "1 of 2 attacks stay within all bounds; the others: pulls." in page
    assert "2.0, 3.0, 2.5 ms, so its bound is 60 ms" in page
    assert "cores 2 of 4, seconds 8." in page


def test_a_page_without_a_run_says_so_and_another_format_is_refused() -> None:
    assert markdown(None) == "Not measured yet."
    with pytest.raises(ValueError, match="make bench-hostile"):
        markdown({"format": 99})
