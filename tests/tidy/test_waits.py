"""Each wait of a test has a bound: a test that hangs says what did not happen, long before pytest ends it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

REPOSITORY = Path(__file__).parents[2]
FOLDERS = ("tests", "processes")

WITHOUT_ARGUMENTS = {
    *("acquire", "awaitAnyTermination", "awaitTermination", "communicate", "exception", "get", "join", "recv"),
    *("result", "wait"),
}
"""Without an argument, or with None, these methods of threads, processes, queues, futures, events and queries wait
for ever.
"""
PROGRAMS = {"call", "check_call", "check_output", "run"}
"""Without ``timeout``, these functions of ``subprocess`` wait for ever."""
DO_NOT_WAIT = {"capture.get()", "self.query.exception()"}
BOUNDED_IN = {
    "tests/harness/spark_queries.py": {"query.processAllAvailable()"},  # a timer stops the query
}


def find_unbounded(source: str) -> Iterator[tuple[int, str]]:
    """Yields line and text of each wait that has no bound, and of each whose test does not notice that it gave up."""
    tree = ast.parse(source)
    allowed = set(find_allowed(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node not in allowed and is_unbounded(node):
            yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Expr) and node not in allowed and is_await_end(node.value):
            yield node.lineno, f"{ast.unparse(node)}, and nothing asserts its result"


def find_allowed(tree: ast.Module) -> Iterator[ast.AST]:
    """Yields what has its bound from around it."""
    for node in ast.walk(tree):
        if is_call_of(node, "wait_for"):
            yield from node.args
        elif isinstance(node, ast.AsyncFunctionDef):  # the result of a task of asyncio is there or an error
            yield from (inner for inner in ast.walk(node) if is_call_of(inner, "result"))
        elif isinstance(node, ast.With) and any(is_call_of(item.context_expr, "raises") for item in node.items):
            yield from (inner for inner in node.body if isinstance(inner, ast.Expr))  # pytest misses the error


def is_call_of(node: ast.AST, name: str) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name


def is_await_end(node: ast.AST) -> bool:
    return is_call_of(node, "awaitTermination") and bool(node.args or node.keywords)


def is_unbounded(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    name = call.func.attr
    if name in PROGRAMS and ast.unparse(call.func.value) == "subprocess":
        return not any(given.arg == "timeout" for given in call.keywords)
    given = [*call.args, *(one.value for one in call.keywords)]
    waits = name in WITHOUT_ARGUMENTS and all(isinstance(one, ast.Constant) and one.value is None for one in given)
    return (waits or name == "processAllAvailable") and ast.unparse(call) not in DO_NOT_WAIT


def test_every_wait_has_a_bound() -> None:
    """Spark's ``processAllAvailable`` takes none: ``process_all`` of tests/harness/spark_queries.py gives it one."""
    modules = [module for folder in FOLDERS for module in sorted((REPOSITORY / folder).rglob("*.py"))]
    found = []
    for module in modules:
        name = str(module.relative_to(REPOSITORY))
        for line, text in find_unbounded(module.read_text(encoding="utf-8")):
            if text not in BOUNDED_IN.get(name, ()):
                found.append(f"{name}:{line}: {text}")
    assert modules
    assert found == []


@pytest.mark.parametrize(
    "wait", ["query.awaitTermination(60)", "assert future.result() == 1", "subprocess.run(['true'], check=True)"]
)
def test_a_wait_without_a_bound_is_found(wait: str) -> None:
    assert [line for line, _ in find_unbounded(wait)] == [1]
