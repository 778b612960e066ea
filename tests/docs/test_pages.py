"""Every page: its links lead somewhere, and the files that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
CODE_ROOTS = (
    "",
    "connector",
    "connector/pyspark_rmqpull",
    "broker_emulator",
    "broker_emulator/rmqpull_broker",
    "proto",
    "tests",
    "tests/broker",
)


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def anchors_of(page: str) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    heads = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}


def broken_links(page: str, text: str) -> list[str]:
    def is_broken(target: str) -> bool:
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists():
            return True
        return bool(anchor) and anchor not in anchors_of(file.resolve().relative_to(ROOT).as_posix())

    return [target for target in re.findall(r"\]\((?!https?:)([^)]+)\)", text) if is_broken(target)]


def misnamed_links(text: str) -> list[str]:
    """Links such as ``[`read.py`](../x/reader.py)``, whose text is the name of another module."""
    links = re.findall(r"\[`([\w/.]+\.py)`\]\(([^)#]+\.py)", text)
    return [shown for shown, target in links if Path(shown).name != Path(target).name]


def missing_files(text: str) -> list[str]:
    """Names like `store/vfs.py` of files that are not there."""
    named = re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|proto|md|toml))(?:::\w+)?`", text)
    return [name for name in named if not any((ROOT / root / name).exists() for root in CODE_ROOTS)]


@pytest.mark.parametrize("page", PAGES)
def test_links_and_named_files_exist(page: str) -> None:
    assert broken_links(page, text_of(page)) == []
    assert misnamed_links(text_of(page)) == []
    assert missing_files(text_of(page)) == []


def test_what_is_broken_is_named() -> None:
    assert broken_links("README.md", "[a](docs/none.md) [b](#none) [c](docs/options.md#none)") == [
        "docs/none.md",
        "#none",
        "docs/options.md#none",
    ]
    assert broken_links("README.md", "[a](docs/options.md#options-of-the-sink) [b](#read) [c](https://a.b/c)") == []
    assert misnamed_links("[`a.py`](../x/a.py) [`x/b.py`](../x/b.py) [`c.py`](../x/d.py)") == ["c.py"]
    assert missing_files("`store/none.py` and `store/vfs.py` and `tests/conftest.py::x`") == ["store/none.py"]


def test_the_guide_to_errors_quotes_the_connector_s_own() -> None:
    """The rows of docs/deploying.md about errors that Spark itself does not raise."""
    quoted = re.findall(r"^\| `(No broker [\w ]+) …", text_of("docs/deploying.md"), re.MULTILINE)
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "connector").rglob("*.py"))
    assert quoted
    assert [text for text in quoted if text not in sources] == []
