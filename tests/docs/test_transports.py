"""Tests with real Spark run against every kind of server, or say why once is enough."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.server_kinds import (
    APACHE,
    COLUMNS,
    LACKS,
    PLANNED_ALIKE,
    REMOTING,
    SEEN_ON_APACHE,
    STAGES,
    STANDARD,
    leave_out,
    leave_to_the_night,
)

FOLDER = Path(__file__).parents[1] / "integration"
OF_KINDS = "kind"
"""The fixture that makes a test run with the columnar extension, without it, and with Apache RocketMQ."""
REASON = "Runs once: "


def functions(source: str) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]


def fixtures(source: str) -> dict[str, list[str]]:
    """Each fixture with those that it needs."""
    return {
        function.name: parameters(function)
        for function in functions(source)
        if any("fixture" in ast.unparse(decorator) for decorator in function.decorator_list)
    }


def parameters(function: ast.FunctionDef) -> list[str]:
    return [parameter.arg for parameter in function.args.args]


def needs(name: str, known: Mapping[str, list[str]]) -> bool:
    return name == OF_KINDS or any(needs(other, known) for other in known.get(name, []))


def without_a_reason(source: str, shared: Mapping[str, list[str]]) -> Iterator[str]:
    """The tests of a module that run against one kind only and do not say why."""
    known = {**shared, **fixtures(source)}
    of_module = ast.get_docstring(ast.parse(source)) or ""
    for function in functions(source):
        told = f"{of_module} {ast.get_docstring(function) or ''}"
        is_test = function.name.startswith("test_")
        if is_test and REASON not in told and not any(needs(name, known) for name in parameters(function)):
            yield function.name


def shared(file: Path) -> dict[str, list[str]]:
    """The fixtures that a module shares with others, of its folder and those above."""
    found: dict[str, list[str]] = {}
    for folder in (FOLDER, file.parent):
        if (folder / "conftest.py").exists():
            found |= fixtures((folder / "conftest.py").read_text(encoding="utf-8"))
    return found


def test_every_test_runs_against_every_kind_or_says_why_not() -> None:
    files = FOLDER.rglob("test_*.py")
    found = {file.name: list(without_a_reason(file.read_text("utf-8"), shared(file))) for file in files}
    assert found
    assert {name: tests for name, tests in found.items() if tests} == {}


class Collected:
    """A test as pytest has collected it, as far as kinds of servers matter."""

    def __init__(self, kind: str, *needed: str, nodeid: str = "tests/integration/test_a.py::test_a") -> None:
        self.nodeid = nodeid
        self.callspec = SimpleNamespace(params={"kind": kind})
        self.needed = needed
        self.reasons: list[str] = []
        self.is_nightly = False

    def get_closest_marker(self, name: str) -> None:
        return None

    def iter_markers(self, name: str) -> list[Any]:
        return [SimpleNamespace(args=self.needed)]

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        if mark.name == "nightly":
            self.is_nightly = True
        else:
            assert mark.name == "skip"
            self.reasons.append(mark.kwargs["reason"])


@pytest.mark.parametrize(
    ("collected", "reasons"),
    [
        (Collected(REMOTING), []),
        (Collected(REMOTING, "faults"), []),
        (Collected(REMOTING, "stages"), ["not against kind 'remoting': the protocol cannot commit a whole batch"]),
        (Collected(APACHE, "stages"), ["not against kind 'apache': it cannot commit a whole batch"]),
        (Collected(STANDARD, "stages"), ["not against kind 'none': it has no extensions"]),
    ],
)
def test_the_end_of_a_run_says_what_was_left_out_and_why(collected: Any, reasons: list[str]) -> None:
    """As pytest shows each test that is skipped. A test that is deselected leaves no trace."""
    items = [collected]
    leave_out(items, None)
    assert (items, collected.reasons) == ([collected], reasons)


@pytest.mark.parametrize(
    ("kind", "file", "is_nightly"),
    [
        (COLUMNS, "test_lag", False),
        (STAGES, "sink/test_refusals", False),
        (STANDARD, "test_lag", True),
        (REMOTING, "test_lag", True),
        (APACHE, "test_lag", True),
        (REMOTING, "test_loss", True),
        (APACHE, "test_loss", False),
        (REMOTING, "test_rows", False),
    ],
)
def test_what_is_alike_over_each_protocol_is_tried_with_each_at_night(kind: str, file: str, is_nightly: bool) -> None:
    item: Any = Collected(kind, nodeid=f"tests/integration/{file}.py::test_a")
    leave_to_the_night([item])
    assert item.is_nightly == is_nightly


@pytest.mark.parametrize("beginning", [*PLANNED_ALIKE, *SEEN_ON_APACHE])
def test_each_beginning_is_that_of_a_test(beginning: str) -> None:
    file, _, name = beginning.partition("::")
    assert f"def {name}" in (FOLDER / file).read_text("utf-8")


def test_every_row_of_what_servers_lack_is_needed_by_some_test() -> None:
    code = "\n".join(file.read_text("utf-8") for file in FOLDER.rglob("test_*.py"))
    needed = {word for words in re.findall(r"\bneeds\(([^)]*)\)", code) for word in re.findall('"([^"]+)"', words)}
    assert needed == LACKS.keys()
