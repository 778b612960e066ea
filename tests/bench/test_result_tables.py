"""What people see of a run: the table, the page in the docs, and the chart."""

from __future__ import annotations

import json
from pathlib import Path

from bench.chart import COLOURS, JAVA, draw, draw_kept
from bench.comparison import CEILING, KAFKA, OURS, Comparison, document
from bench.result_tables import NOT_MEASURED, markdown, rows
from bench.results import Aim

READ = Comparison(
    "stream-body",
    "stream read, body only",
    "rows/s",
    {KAFKA: Aim(at_least=4), CEILING: Aim(at_least=0.55)},
    figures={CEILING: [2_000_000.0], OURS: [1_000_000.0, 900_000.0, 1_200_000.0]},
    not_run={KAFKA: "Maven is not installed"},
)


def test_each_contender_has_a_line_with_ours_first() -> None:
    assert list(rows([READ])) == [
        ("stream read, body only", "rows/s", OURS, "1,000,000", "900,000", "1,200,000", "", "", ""),
        ("", "", CEILING, "2,000,000", "2,000,000", "2,000,000", "0.50", ">= 0.55", "missed"),
        ("", "", KAFKA, "not run", "", "", "", ">= 4.00", ""),
    ]


def test_the_page_shows_the_machine_and_why_contenders_are_missing() -> None:
    page = markdown(document([READ], {"cores": "2"}, {"rows": 1_600_000, "topic_sizes": [1, 2_000]}))
    assert "| stream read, body only | rows/s | rmqpull | 1,000,000 |" in page
    assert "cores 2, rows 1,600,000, topic_sizes 1 / 2,000." in page
    assert "Kafka was not run: Maven is not installed." in page


def test_a_failed_contender_has_a_line_and_a_reason_below_the_table() -> None:
    read = Comparison("q", "stream read, 64 queues", "rows/s", figures={OURS: [5.0]}, failed={KAFKA: "it timed out"})
    page = markdown(document([read], {}, {}))
    assert "|  |  | Kafka | failed |  |  |  |  |  |" in page
    assert "Kafka failed in stream read, 64 queues: it timed out." in page


def test_a_page_without_a_run_says_so() -> None:
    assert markdown(None) == NOT_MEASURED


def test_the_chart_of_a_run_is_always_the_same_and_leaves_out_missing_contenders(tmp_path: Path) -> None:
    charts = [tmp_path / name for name in ("one.svg", "other.svg")]
    for chart in charts:
        draw([READ], chart)
    one, other = (chart.read_bytes() for chart in charts)
    assert one == other
    assert one.startswith(b"<?xml")


def test_the_chart_shows_what_the_kept_runs_have_and_java_s_clients_as_one(tmp_path: Path) -> None:
    runs = {
        "full": Comparison("batch-write", "batch write", "rows/s", figures={OURS: [2e6], KAFKA: [1e6]}),
        "apache": Comparison("apache-write", "batch write", "rows/s", figures={OURS: [1e6], "Java's producer": [2e6]}),
    }
    for name, comparison in runs.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document([comparison], {}, {})), encoding="utf-8")
    colours = dict[tuple[str, ...], set[str]]()
    for names in (("full", "missing"), ("full", "apache")):
        draw_kept([tmp_path / f"{name}.json" for name in names], tmp_path / "chart.svg")
        drawn = (tmp_path / "chart.svg").read_text(encoding="utf-8")
        colours[names] = {name for name, colour in COLOURS.items() if f"fill: {colour}" in drawn}
    assert colours == {("full", "missing"): {OURS, KAFKA}, ("full", "apache"): {OURS, KAFKA, JAVA}}
