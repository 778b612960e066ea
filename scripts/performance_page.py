"""Writes the figures of docs/performance.md and the chart of the README, from the runs in bench/results.

usage: python -m scripts.performance_page           writes them between their markers
       python -m scripts.performance_page --check   exits 1 if they differ
"""

from __future__ import annotations

import json

from bench.result_tables import markdown
from scripts.doc_tables import ROOT, write_or_check

RESULTS = ROOT / "bench" / "results" / "full.json"
RESULTS_ON_APACHE = ROOT / "bench" / "results" / "apache.json"
CHART = "![Rows per second and latency beside Spark's Kafka source and the engine's ceiling]({}images/performance.svg)"


def results() -> str:
    """Returns the table of the run, or says that there is none."""
    if not RESULTS.exists():
        return markdown(None)
    return f"{CHART.format('')}\n\n{markdown(json.loads(RESULTS.read_text(encoding='utf-8')))}"


def results_on_apache() -> str:
    """Returns the tables of the run on a real Apache RocketMQ, or says that there is none."""
    if not RESULTS_ON_APACHE.exists():
        return markdown(None)
    return markdown(json.loads(RESULTS_ON_APACHE.read_text(encoding="utf-8")))


def chart() -> str:
    """Returns the chart of the run, or nothing."""
    return f"\n{CHART.format('docs/')}\n" if RESULTS.exists() else ""


if __name__ == "__main__":
    write_or_check(ROOT / "docs" / "performance.md", {"results": results, "results-on-apache": results_on_apache})
    write_or_check(ROOT / "README.md", {"performance-chart": chart})
