"""What Arrow gets wrong in releases that setup.py allows is not used."""

import ast
from pathlib import Path

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


def test_a_null_text_is_found() -> None:
    assert choices_of_null_texts("pc.if_else(is_whole, texts, pa.scalar(None, texts.type))") != []
