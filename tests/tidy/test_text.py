"""Limits that keep modules readable, and names that say nothing."""

import ast
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
EMPTY_NAMES = {"utils", "util", "helpers", "common", "manager", "base", "misc"}
# In two parts, so that this file does not find itself.
LEFTOVERS = ("TO" + "DO", "FIX" + "ME")
FOLDERS = (
    "connector",
    "broker_emulator",
    "proto",
    "demo",
    "examples",
    "bench",
    "processes",
    "soak",
    "scripts",
    "tests",
)


def modules() -> Iterator[Path]:
    for folder in FOLDERS:
        found = (REPOSITORY / folder).rglob("*.py")
        yield from (m for m in found if not m.stem.endswith(("_pb2", "_pb2_grpc")))


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Returns the lines from `def` to the end, without the docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    return lines - len((ast.get_docstring(function, clean=False) or "").splitlines())


def complaints(name: str, source: str) -> list[str]:
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    found = [f"{f.name} has {length(f)} lines" for f in functions if length(f) > FUNCTION_LINES_MAX]
    found += [f"a leftover {word}" for word in LEFTOVERS if word in source]
    if len(source.splitlines()) > MODULE_LINES_MAX:
        found.append(f"{len(source.splitlines())} lines")
    if name in EMPTY_NAMES:
        found.append("a name that says nothing")
    return found


def test_every_module_can_be_read() -> None:
    found = {str(m.relative_to(REPOSITORY)): complaints(m.stem, m.read_text(encoding="utf-8")) for m in modules()}
    assert found
    assert {m: c for m, c in found.items() if c} == {}
