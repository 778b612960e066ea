"""docs/acceptance.md: every case has its tests, and the table names them."""

from __future__ import annotations

import pytest

from scripts.acceptance_tables import CASES, DOCUMENT, LIMITED, TABLES, cases_in, claims, proofs
from scripts.doc_tables import with_tables


def test_every_case_is_described() -> None:
    assert list(CASES) == list(range(1, 76))


def test_every_case_has_a_test() -> None:
    assert sorted(CASES.keys() - proofs().keys()) == []


def test_a_test_names_no_other_case() -> None:
    assert sorted(proofs().keys() - CASES.keys()) == []


def test_limits_are_those_of_cases() -> None:
    assert LIMITED.keys() <= CASES.keys()


def test_the_table_is_up_to_date() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert with_tables(text, TABLES, DOCUMENT.name) == text, "run: make readme"


@pytest.mark.parametrize(
    ("text", "cases"),
    [
        ("Acceptance case 14.", {14}),
        ("Acceptance cases 5 and 6: the search", {5, 6}),
        ("acceptance cases 37, 49, 52).", {37, 49, 52}),
        ("cases 30, 38 and 44: what is not there", {30, 38, 44}),
        ("acceptance cases 14 to 18", {14, 15, 16, 17, 18}),
        ("test_case_31_too_few_partitions", {31}),
        ("in each case 'a' is showcase 7", set()),
        ("no number", set()),
    ],
)
def test_numbers_are_read(text: str, cases: set[int]) -> None:
    assert cases_in(text) == cases


def test_a_claim_is_that_of_a_test() -> None:
    source = '''
"""Some (case 1)."""
def place() -> None:
    """Case 2."""
def test_case_3_it() -> None:
    """Case
    4."""
class TestIt:
    def test_it(self) -> None:
        """Case 5."""
'''
    assert sorted(claims(source)) == [("", 1), ("test_case_3_it", 3), ("test_case_3_it", 4), ("test_it", 5)]
