"""The figures in docs/performance.md and the chart in the README, of the run of the benchmark that is kept.

usage: python -m scripts.performance_page           writes them between their markers
       python -m scripts.performance_page --check   exits 1 when they differ
"""

from __future__ import annotations

import json

from bench.result_tables import markdown
from scripts.doc_tables import ROOT, write_or_check

RESULTS = ROOT / "bench" / "results" / "full.json"
CHART = "![Rows per second and latency beside Spark's Kafka source and the engine's ceiling]({}images/performance.svg)"


def results() -> str:
    """The table of the run that is kept, or that there is none."""
    if not RESULTS.exists():
        return markdown(None)
    return f"{CHART.format('')}\n\n{markdown(json.loads(RESULTS.read_text(encoding='utf-8')))}"


def chart() -> str:
    """The chart of the run that is kept, or nothing."""
    return f"\n{CHART.format('docs/')}\n" if RESULTS.exists() else ""


if __name__ == "__main__":
    write_or_check(ROOT / "docs" / "performance.md", {"results": results})
    write_or_check(ROOT / "README.md", {"performance-chart": chart})
