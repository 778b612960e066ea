"""Runs the tests of all acceptance cases with this PySpark, and records how they end in docs/acceptance.json.

usage: python -m scripts.run_acceptance, which `make acceptance VERSION=4.1` calls
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from scripts.acceptance_results import FAILED, read_report, record
from scripts.acceptance_tables import DOCUMENT, TABLES, proofs
from scripts.doc_tables import ROOT, with_tables


def run_tests(tests: Iterable[str], report: Path) -> None:
    """Runs tests, whose names are relative to the folder of all tests, and writes a report in JUnit's format."""
    options = ["--numprocesses", "2", "--dist", "loadfile", "--no-loadscope-reorder", f"--junitxml={report}"]
    options += ["-m", "not apache and not large"]  # also those of the nightly runs
    command = [sys.executable, "-m", "pytest", *options, *(f"tests/{test}" for test in tests)]
    subprocess.run(command, cwd=ROOT, check=False)  # the report says what has failed


def main() -> None:
    """Run, record, and write the page. Exits with 1 if a test has failed."""
    tests = sorted({test for of_case in proofs().values() for test in of_case})
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        run_tests(tests, report)
        outcomes = read_report(report.read_text(encoding="utf-8"))
    record(outcomes)
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text(encoding="utf-8"), TABLES, DOCUMENT.name), encoding="utf-8")
    sys.exit(FAILED in outcomes.values())


if __name__ == "__main__":
    main()
