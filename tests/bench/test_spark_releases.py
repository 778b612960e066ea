"""The figures of releases of Spark: how runs are collected, and their table."""

from __future__ import annotations

from typing import Any

import click
import pytest

from bench.comparison import KAFKA, OURS, Comparison, document
from bench.spark_releases import FORMAT, Collected, markdown, rows


def make_run(ours: list[float], kafka: list[float], spark: str) -> dict[str, Any]:
    comparison = Comparison("batch", "batch read", "rows/s", figures={OURS: ours, KAFKA: kafka})
    return document([comparison], {"spark": spark, "python": "3.10.13", "pyarrow": "18.0.0"}, {})


def collect(of_4_1: list[list[float]]) -> dict[str, Any]:
    collected = Collected()
    for ours in of_4_1:
        collected.add("4.0", make_run([100.0], [50.0], "4.0.5"))
        collected.add("4.1", make_run(ours, [], "4.1.4"))
        collected.add("4.3", make_run([100.0], [40.0], "4.3.0"))
    return collected.as_json({"cores": "2"})


def test_all_runs_of_a_release_count() -> None:
    kept = collect([[80.0, 90.0], [100.0]])
    assert [line[2:6] for line in rows(kept)] == [
        ("4.0", "100", "1.00", "met"),
        ("4.1", "90", "0.90", "met"),
        ("4.3", "100", "", ""),
    ]


def test_a_release_that_is_slower_misses_the_aim() -> None:
    (_, slower, _) = rows(collect([[80.0]]))
    assert slower[4:6] == ("0.80", "missed")


def test_kafkas_source_of_the_release_stands_beside_it() -> None:
    assert [line[6:] for line in rows(collect([[80.0]]))] == [("50", "2.00"), ("not run", ""), ("40", "2.50")]


def test_the_page_names_releases_and_machine() -> None:
    page = markdown(collect([[80.0]]))
    assert "- 4.1: 4.1.4, Python 3.10.13, pyarrow 18.0.0" in page
    assert page.endswith("cores 2.")


def test_without_a_run_the_page_says_so() -> None:
    assert markdown(None) == "Not measured yet."


def test_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match=f"this reads {FORMAT}"):
        markdown({"format": 0})


def test_a_workload_that_has_failed_ends_the_run() -> None:
    comparison = Comparison("batch", "batch read", "rows/s", failed={OURS: "no broker"})
    run = document([comparison], {"spark": "4.0.5", "python": "3.10.13", "pyarrow": "18.0.0"}, {})
    with pytest.raises(click.ClickException, match=r"batch read with PySpark 4\.0: .*no broker"):
        Collected().add("4.0", run)
