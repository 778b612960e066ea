"""What Arrow gets wrong in releases that setup.py allows is not used."""

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SOURCES = sorted(
    path for root in ("broker_emulator", "connector", "proto") for path in (REPOSITORY / root).rglob("*.py")
)


def choices_of_null_texts(source: str) -> list[str]:
    """Calls of ``if_else`` with a null text. With a slice, Arrow 18 to 21 return bytes from elsewhere in memory."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    chosen = [call for call in calls if ast.unparse(call.func).endswith("if_else")]
    return [
        ast.unparse(call)
        for call in chosen
        if any(ast.unparse(each).startswith("pa.scalar(None") and "int" not in ast.unparse(each) for each in call.args)
    ]


def test_no_null_text_is_chosen_with_if_else() -> None:
    assert SOURCES
    assert [found for path in SOURCES for found in choices_of_null_texts(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("line", "is_bad"),
    [
        ("pc.if_else(is_empty, pa.scalar(None, pa.string()), texts)", True),
        ("pc.if_else(is_whole, texts, pa.scalar(None, texts.type))", True),
        ("pc.if_else(is_none, pa.scalar(None, pa.int32()), numbers)", False),
        ("pc.if_else(is_entry, texts, '')", False),
    ],
)
def test_a_null_text_is_found(line: str, is_bad: bool) -> None:
    assert bool(choices_of_null_texts(line)) is is_bad
