"""What docs/acceptance.json says of a release of Spark."""

from __future__ import annotations

import pytest

from scripts.acceptance_results import FAILED, NOT_RUN, PASSED, read_report, read_results, tell

REPORT = """<testsuites><testsuite>
<testcase classname="tests.integration.test_rows" name="test_a[columns]"/>
<testcase classname="tests.integration.test_rows" name="test_a[standard]"><skipped message="no such server"/></testcase>
<testcase classname="tests.integration.test_rows" name="test_b[columns]"/>
<testcase classname="tests.integration.test_rows" name="test_b[standard]"><failure message="x"/></testcase>
<testcase classname="tests.integration.test_rows" name="test_c"><skipped message="not on PySpark 4.1: x"/></testcase>
<testcase classname="tests.integration.test_rows" name="test_d"><error message="x"/></testcase>
</testsuite></testsuites>"""


def test_a_report_is_read_as_the_worst_of_each_test() -> None:
    assert read_report(REPORT) == {
        "integration/test_rows.py::test_a": PASSED,
        "integration/test_rows.py::test_b": FAILED,
        "integration/test_rows.py::test_c": "not on PySpark 4.1: x",
        "integration/test_rows.py::test_d": FAILED,
    }


RECORDED = {
    "a.py::test_a": PASSED,
    "a.py::test_b": "not on PySpark 4.1: it cannot",
    "b.py::test_c": FAILED,
    "c.py::test_d": "a tool is missing",
}


@pytest.mark.parametrize(
    ("tests", "told"),
    [
        (["a.py::test_a"], PASSED),
        (["a.py::test_b"], "it cannot"),
        (["a.py::test_a", "a.py::test_b"], f"{PASSED}; it cannot"),
        (["a.py"], f"{PASSED}; it cannot"),
        (["a.py::test_a", "b.py"], FAILED),
        (["c.py::test_d"], NOT_RUN),
        (["d.py::test_new"], NOT_RUN),
        ([], NOT_RUN),
    ],
)
def test_a_case_has_passed_or_says_why_not(tests: list[str], told: str) -> None:
    assert tell(tests, RECORDED) == told


@pytest.mark.parametrize("release", sorted(read_results()))
def test_no_recorded_test_has_failed(release: str) -> None:
    recorded = read_results()[release]["tests"]
    assert [name for name, outcome in recorded.items() if outcome == FAILED] == []
    assert PASSED in recorded.values()
