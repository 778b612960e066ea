"""The small changes that tests must notice: a condition that is always true, an argument that is left out, ..."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any, NamedTuple

_NO_CODE = frozenset({"annotation", "returns", "decorator_list", "bases", "keywords_of_class", "exc", "cause", "msg"})
"""Fields of the syntax tree that are left alone: types, and the texts of errors."""
_LOGS = "_logger"
_SWAPPED: dict[type[ast.AST], type[Any]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


class Change(NamedTuple):
    """One change of a module, named so that it keeps its name when other lines move."""

    function: str
    """The function with its class, or an empty text for the module itself."""
    what: str
    """The old code and the new one."""

    def __str__(self) -> str:
        return f"{self.function or 'the module'}: {self.what}"


@dataclass(frozen=True)
class Mutant:
    """A module with one change, compiled."""

    change: Change
    line: int
    code: CodeType


class _Edit(NamedTuple):
    what: str
    line: int
    apply: Callable[[], None]
    undo: Callable[[], None]


def list_mutants(source: str, file: str) -> Iterator[Mutant]:
    """Yields a module with each of its changes. Equal changes of a function get numbers, from the second one on."""
    tree = ast.parse(source, file)
    named: dict[Change, int] = {}
    for function, edit in _find_edits(tree, ""):
        change = Change(function, edit.what)
        named[change] = number = named.get(change, 0) + 1
        if number > 1:
            change = Change(function, f"{edit.what} ({number})")
        edit.apply()
        try:
            ast.fix_missing_locations(tree)
            yield Mutant(change, edit.line, compile(tree, file, "exec", dont_inherit=True))
        finally:
            edit.undo()


def _find_edits(node: ast.AST, function: str) -> Iterator[tuple[str, _Edit]]:
    """Finds the changes below a node, in the order of the source."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".lstrip(".")
    for field, value in ast.iter_fields(node):
        if field in _NO_CODE or (isinstance(node, ast.ClassDef) and field == "keywords"):
            continue
        children = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
        for index, child in children:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr) or _is_log(child):
                continue
            if isinstance(node, ast.Module) and isinstance(child, ast.Assign | ast.AnnAssign) and _is_number(child):
                continue  # a limit or an interval: no test asserts durations
            for text, new in _find_replacements(node, field, child):
                yield function, _replace(node, field, index, child, new, text)
            yield from _find_edits(child, function)
        if isinstance(value, list):
            for edit in _drop_elements(node, field, value):
                yield function, edit


def _find_replacements(parent: ast.AST, field: str, node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Finds what may stand in place of one node, each with the text that names the change."""
    old = _show(node)
    if isinstance(node, ast.stmt):
        if _may_be_left_out(node):
            yield f"without `{old}`", ast.Pass()
    elif field == "test" and not isinstance(parent, ast.While | ast.Assert):
        for constant in (True, False):
            yield f"`{old}` is {constant}", ast.Constant(constant)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _swap(node, "ops", node.ops[0])
    if (
        isinstance(node, ast.Compare)
        and field == "test"
        and len(node.ops) == 1
        and isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    ):
        yield from _swap(node, "ops", node.ops[0])
    match node:
        case ast.BinOp(op=op):
            yield from _swap(node, "op", op)
        case ast.UnaryOp(op=ast.Not(), operand=operand) if field != "test":
            yield f"`{old}` becomes `{_show(operand)}`", operand
        case ast.BoolOp(values=values):
            for left_out in values:
                left = [value for value in values if value is not left_out]
                new = left[0] if len(left) == 1 else ast.BoolOp(node.op, left)
                yield f"`{old}` without `{_show(left_out)}`", new
        case ast.Constant(value=bool(value)) if field != "test":
            yield f"{_show(parent)}: {value} becomes {not value}", ast.Constant(not value)
        case ast.Constant(value=int(value)) if not isinstance(value, bool) and not isinstance(parent, ast.UnaryOp):
            yield f"`{_show(parent)}`: {value} becomes {value + 1}", ast.Constant(value + 1)


def _swap(node: ast.Compare | ast.BinOp, field: str, operator: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    swapped = _SWAPPED.get(type(operator))
    if swapped is not None and not _is_text(node):
        copy = type(node)(**dict(ast.iter_fields(node)))
        setattr(copy, field, [swapped()] if field == "ops" else swapped())
        yield f"`{_show(node)}` becomes `{_show(copy)}`", copy


def _drop_elements(node: ast.AST, field: str, elements: list[Any]) -> Iterator[_Edit]:
    """Finds what may be left out of a list: arguments by name, elements of displays, conditions of comprehensions."""
    droppable = (
        (isinstance(node, ast.Call) and field == "keywords" and not _is_log(node))
        or (isinstance(node, ast.comprehension) and field == "ifs")
        or (
            isinstance(node, ast.List | ast.Set)
            and field == "elts"
            and isinstance(node.ctx if isinstance(node, ast.List) else ast.Load(), ast.Load)
        )
        or (isinstance(node, ast.Dict) and field == "values")
    )
    if not droppable:
        return
    for index, element in enumerate(list(elements)):
        if isinstance(element, ast.keyword) and element.arg == "strict":
            continue  # of zip: it only finds mistakes
        shown = _show(element.value if isinstance(element, ast.keyword) else element)
        name = f"{element.arg}=" if isinstance(element, ast.keyword) and element.arg else ""
        lists = [elements, node.keys] if isinstance(node, ast.Dict) else [elements]
        yield _drop(lists, index, f"`{_show(node)}` without `{name}{shown}`", getattr(element, "lineno", 0))


def _drop(lists: list[list[Any]], index: int, what: str, line: int) -> _Edit:
    taken: list[Any] = []

    def apply() -> None:
        taken[:] = [one.pop(index) for one in lists]

    def undo() -> None:
        for one, element in zip(lists, taken, strict=True):
            one.insert(index, element)

    return _Edit(what, line, apply, undo)


def _replace(parent: ast.AST, field: str, index: int | None, old: ast.AST, new: ast.AST, what: str) -> _Edit:
    def put(node: ast.AST) -> None:
        if index is None:
            setattr(parent, field, node)
        else:
            getattr(parent, field)[index] = node

    return _Edit(what, getattr(old, "lineno", 0), lambda: put(ast.copy_location(new, old)), lambda: put(old))


def _may_be_left_out(node: ast.stmt) -> bool:
    """Whether the module still compiles, and ends, without a statement."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return False  # a docstring
        case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
            return True
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Delete():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
        case ast.Return(value=value):
            return value is None
    return False


def _is_number(node: ast.Assign | ast.AnnAssign) -> bool:
    return isinstance(node.value, ast.Constant | ast.BinOp)


def _is_log(node: ast.AST) -> bool:
    call = node.value if isinstance(node, ast.Expr) else node
    return isinstance(call, ast.Call) and _show(call.func).startswith(_LOGS)


def _is_text(node: ast.Compare | ast.BinOp) -> bool:
    parts = (node.left, node.right) if isinstance(node, ast.BinOp) else ()
    return any(isinstance(part, ast.JoinedStr) or isinstance(getattr(part, "value", None), str) for part in parts)


def _show(node: ast.AST) -> str:
    """Returns the code of a node on one line, shortened."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


_SHOWN_MAX = 90
