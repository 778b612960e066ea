"""docs/acceptance.md: every case has its tests, and the table names them."""

from __future__ import annotations

from scripts.acceptance_tables import CASES, DOCUMENT, LIMITED, TABLES, proofs
from scripts.doc_tables import with_tables


def test_every_case_has_a_test() -> None:
    assert sorted(CASES.keys() - proofs().keys()) == []


def test_a_test_names_no_other_case() -> None:
    assert sorted(proofs().keys() - CASES.keys()) == []


def test_limits_are_those_of_cases() -> None:
    assert LIMITED.keys() <= CASES.keys()


def test_the_table_is_up_to_date() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert with_tables(text, TABLES, DOCUMENT.name) == text, "run: make readme"
