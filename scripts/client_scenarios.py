"""The scenarios of Apache's clients, as their tests describe them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1] / "tests" / "clients"


class Scenario(NamedTuple):
    """A scenario: what clients do, and the test that shows it."""

    what: str
    module: str
    test: str


def list_scenarios(folder: Path = TESTS) -> Iterator[Scenario]:
    """Yields all scenarios of a folder. Raises ValueError for a test without a docstring."""
    for file in sorted(folder.glob("test_*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                sentence = ast.get_docstring(node)
                if sentence is None:
                    raise ValueError(f"{file.name}: {node.name} has no docstring, which is its row in the table")
                yield Scenario(" ".join(sentence.split()), file.name, node.name)
