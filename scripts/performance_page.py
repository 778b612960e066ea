"""Writes the figures of docs/performance.md and docs/hostile.md, and the chart of the README, from bench/results.

usage: python -m scripts.performance_page           writes them between their markers
       python -m scripts.performance_page --check   exits 1 if they differ
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.hostile.figures import markdown as attacks_markdown
from bench.planning_figures import markdown as planning_markdown
from bench.result_tables import markdown
from bench.spark_releases import markdown as releases_markdown
from scripts.doc_tables import ROOT, write_or_check

RESULTS = ROOT / "bench" / "results" / "full.json"
RESULTS_ON_APACHE = ROOT / "bench" / "results" / "apache.json"
RESULTS_OVER_GRPC = ROOT / "bench" / "results" / "grpc.json"
RESULTS_OVER_REMOTING = ROOT / "bench" / "results" / "broker.json"
RESULTS_ON_RELEASES = ROOT / "bench" / "results" / "spark.json"
RESULTS_THROUGH_PROXY = ROOT / "bench" / "results" / "proxy.json"
RESULTS_OF_SHELL = ROOT / "bench" / "results" / "shell.json"
RESULTS_OF_PLANNING = ROOT / "bench" / "results" / "planning.json"
RESULTS_OF_ATTACKS = ROOT / "bench" / "results" / "hostile.json"
CHART = (
    "![Reads and writes on rmqpull's broker and on Apache's, and times, beside Kafka and Java's client]"
    "({}images/performance.svg)"
)


def results() -> str:
    """Returns the table of the run, or says that there is none."""
    if not RESULTS.exists():
        return markdown(None)
    return f"{CHART.format('')}\n\n{markdown(json.loads(RESULTS.read_text(encoding='utf-8')))}"


def results_on_apache() -> str:
    """Returns the tables of the run on a real Apache RocketMQ, or says that there is none."""
    return _tables(RESULTS_ON_APACHE)


def results_over_remoting() -> str:
    """Returns the tables of the emulator beside Apache's broker, or says that there are none."""
    return _tables(RESULTS_OVER_REMOTING)


def results_over_grpc() -> str:
    """Returns the tables of the emulator beside Apache's proxy, or says that there are none."""
    return _tables(RESULTS_OVER_GRPC)


def attacks() -> str:
    """Returns the table of the attacks, or says that there is none."""
    return attacks_markdown(_read(RESULTS_OF_ATTACKS))


def results_on_releases() -> str:
    """Returns the table of Spark's releases, or says that there is none."""
    return releases_markdown(_read(RESULTS_ON_RELEASES))


def results_through_proxy() -> str:
    """Returns the tables of reads through Apache's proxy, or says that there are none."""
    return _tables(RESULTS_THROUGH_PROXY)


def results_of_shell() -> str:
    """Returns the tables of the command line, or says that there are none."""
    return _tables(RESULTS_OF_SHELL)


def results_of_planning() -> str:
    """Returns the table of what witnesses cost, or says that there is none."""
    return planning_markdown(_read(RESULTS_OF_PLANNING))


def _tables(file: Path) -> str:
    return markdown(_read(file))


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def chart() -> str:
    """Returns the chart of the run, or nothing."""
    return f"\n{CHART.format('docs/')}\n" if RESULTS.exists() else ""


if __name__ == "__main__":
    tables = {
        "results": results,
        "results-on-apache": results_on_apache,
        "results-over-remoting": results_over_remoting,
        "results-over-grpc": results_over_grpc,
        "results-on-releases": results_on_releases,
        "results-of-planning": results_of_planning,
        "results-through-proxy": results_through_proxy,
        "results-of-shell": results_of_shell,
    }
    write_or_check(ROOT / "docs" / "performance.md", tables)
    write_or_check(ROOT / "docs" / "hostile.md", {"attacks": attacks})
    write_or_check(ROOT / "README.md", {"performance-chart": chart})
