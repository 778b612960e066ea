"""Which changes are made, and that each change is compiled alone."""

from __future__ import annotations

import textwrap

import pytest

from tests.mutants.changes import list_mutants
from tests.mutants.drawn import read_drawn
from tests.mutants.modules import MODULES, find_tests
from tests.mutants.survivors import KNOWN
from tests.mutants.trial import REPOSITORY


def list_changes(source: str) -> list[str]:
    return [str(mutant.change) for mutant in list_mutants(textwrap.dedent(source), "module.py")]


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("a if b else c", ["`b` is True", "`b` is False"]),
        (
            "a if b < c else d",
            ["`b < c` is True", "`b < c` is False", "`b < c` becomes `b <= c`"],
        ),
        ("a == b", ["`a == b` becomes `a != b`"]),
        ("a + b", ["`a + b` becomes `a - b`"]),
        ("a and b", ["`a and b` without `a`", "`a and b` without `b`"]),
        ("not a", ["`not a` becomes `a`"]),
        ("{**a, **b}", ["`{**a, **b}` without `a`", "`{**a, **b}` without `b`"]),
        ("f(a, b=c)", ["`f(a, b=c)` without `b=c`"]),
        ("[a for b in c if d]", ["`for b in c if d` without `d`"]),
        ("a[1:]", ["`1:`: 1 becomes 2"]),
        ("'a text' + b", []),
        ("zip(a, b, strict=True)", ["strict=True: True becomes False"]),
    ],
)
def test_an_expression_has_these_changes(code: str, changes: list[str]) -> None:
    assert list_changes(f"def find():\n    return {code}") == [f"find: {change}" for change in changes]


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("a.b = c", ["without `a.b = c`"]),
        ("f()", ["without `f()`"]),
        ("raise E('a text')", ["without `raise E('a text')`"]),
        ("a = b", []),  # whatever reads it would fail
        ("_logger.info('%d', a)", []),
        ("'''A docstring'''", []),
    ],
)
def test_a_statement_has_these_changes(code: str, changes: list[str]) -> None:
    assert list_changes(f"class Store:\n    def put(self):\n        {code}") == [
        f"Store.put: {change}" for change in changes
    ]


def test_each_mutant_has_one_change() -> None:
    source = "def find(a, b):\n    return (a and b, a and b)"
    results = []
    for mutant in list_mutants(source, "module.py"):
        names: dict[str, object] = {}
        exec(mutant.code, names)  # the changed module, as an import runs it
        find = names["find"]
        assert callable(find)
        results.append((mutant.change.what, find(1, 0)))
    assert results == [
        ("`a and b` without `a`", (0, 0)),
        ("`a and b` without `b`", (1, 0)),
        ("`a and b` without `a` (2)", (0, 0)),
        ("`a and b` without `b` (2)", (0, 1)),
    ]


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_tests_of_its_own(module: str) -> None:
    assert find_tests(module)[0], "leave it out, or write tests that are named after it"


@pytest.mark.parametrize("module", sorted({module for module, *_ in KNOWN}))
def test_known_survivors_exist(module: str) -> None:
    assert module in {*MODULES, *(drawn for drawn, *_ in read_drawn())}
    source = (REPOSITORY / module).read_text(encoding="utf-8")
    changes = {tuple(mutant.change) for mutant in list_mutants(source, module)}
    gone = [known for known in KNOWN if known[0] == module and known[1:] not in changes]
    assert gone == [], "remove these from survivors.py: the code has changed"
