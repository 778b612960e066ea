"""How the tests of the acceptance cases have ended on releases of Spark: docs/acceptance.json."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

import pyspark

from bench.spark_releases import RELEASES as RELEASES
from scripts.doc_tables import ROOT

RESULTS = ROOT / "docs" / "acceptance.json"
PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"
LEFT_OUT = "not on PySpark "
"""How the reason begins why a release cannot run a test: see tests/harness/spark_kinds.py."""


def read_report(report: str) -> dict[str, str]:
    """Returns how each test has ended: PASSED, FAILED, or the reason for which it was left out.

    A test with parameters has the worst result of them, and PASSED if only some parameters were left out.
    """
    found: dict[str, str] = {}
    for name, outcome in _read_cases(report):
        before = found.get(name, outcome)
        found[name] = FAILED if FAILED in (before, outcome) else PASSED if PASSED in (before, outcome) else outcome
    return dict(sorted(found.items()))


def _read_cases(report: str) -> Iterator[tuple[str, str]]:
    for case in ElementTree.fromstring(report).iter("testcase"):
        file = "/".join(case.attrib["classname"].split(".")[1:])
        name = f"{file}.py::{case.attrib['name'].partition('[')[0]}"
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            yield name, FAILED
        else:
            yield name, PASSED if skipped is None else skipped.attrib.get("message", "")


def read_results() -> dict[str, Any]:
    """Returns what was recorded of each release."""
    results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return results


def record(outcomes: Mapping[str, str]) -> None:
    """Replaces what is recorded of this PySpark by the outcomes of the tests of acceptance cases."""
    release = ".".join(pyspark.__version__.split(".")[:2])
    this = {"pyspark": pyspark.__version__, "python": platform.python_version(), "tests": dict(outcomes)}
    results = dict(sorted({**read_results(), release: this}.items()))
    RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def tell(tests: Iterable[str], recorded: Mapping[str, str]) -> str:
    """Returns how a case has ended on a release. ``tests`` may be whole files."""
    outcomes = [
        outcome for name, outcome in recorded.items() for test in tests if name == test or name.startswith(f"{test}::")
    ]
    if FAILED in outcomes:
        return FAILED
    reasons = sorted({outcome.partition(": ")[2] for outcome in outcomes if outcome.startswith(LEFT_OUT)})
    return "; ".join([PASSED] * (PASSED in outcomes) + reasons) or NOT_RUN
