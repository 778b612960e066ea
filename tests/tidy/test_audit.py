"""A report of pip-audit says that there are no vulnerabilities, too, when nothing could be looked up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scripts.audit import NotAudited, Report, read_report

OURS = {"name": "rmqpull", "skip_reason": "distribution marked as editable"}
FINE = {"name": "click", "version": "8.5.1", "vulns": []}
SKIPPED = {"name": "numpy", "skip_reason": "Dependency not found on PyPI and could not be audited: numpy"}
BAD = {
    "name": "idna",
    "version": "3.1",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.7"]}, {"id": "GHSA-2", "fix_versions": []}],
}


def write(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


@pytest.mark.parametrize(
    ("packages", "report"),
    [
        ([OURS, FINE], Report(1, [], [])),
        ([OURS, FINE, SKIPPED], Report(1, ["numpy"], [])),
        ([BAD, FINE], Report(2, [], ["idna 3.1: PYSEC-1 (fixed in 3.7), GHSA-2 (fixed in no release)"])),
    ],
)
def test_a_report_tells_packages_that_are_vulnerable_and_those_that_nobody_knows(
    packages: list[dict[str, Any]], report: Report
) -> None:
    assert read_report(write(*packages)) == report


@pytest.mark.parametrize(
    ("document", "errors", "reason"),
    [
        (write(OURS, SKIPPED), "", "no package could be looked up; Dependency not found on PyPI"),
        (write(), "", "no package could be looked up; there are none"),
        ("", "Traceback\nServiceError: Failed to connect to pypi.org\n", "ServiceError: Failed to connect"),
        ("", "", "pip-audit says nothing"),
    ],
)
def test_a_report_about_nothing_is_no_audit(document: str, errors: str, reason: str) -> None:
    with pytest.raises(NotAudited, match=reason):
        read_report(document, errors)
