"""The figures in docs/performance.md, made from the last whole run of the benchmark.

usage: python scripts/performance_page.py           writes them between their markers
       python scripts/performance_page.py --check   exits 1 when they differ
"""

from __future__ import annotations

import json
import sys

from readme_tables import ROOT, write_or_check

sys.path.append(str(ROOT / "bench"))

from pages import markdown  # the benchmark is a folder of programs and no package

RESULTS = ROOT / "bench" / "results" / "full.json"


def results() -> str:
    """The table of the last whole run, or that there is none."""
    return markdown(json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else None)


if __name__ == "__main__":
    write_or_check(ROOT / "docs" / "performance.md", {"results": results})
