"""docs/rules: code and tests cite its sections, as in "rules 3.10.1", and every section is cited."""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "rules"
SUFFIXES = {".md", ".proto", ".py", ".toml", ".yaml", ".yml"}
GENERATED = {"build", "__pycache__", "node_modules"}

Number = tuple[int, ...]

_NUMBER = r"[0-9](?:\.[0-9]+){1,3}(?![\w]|\.[0-9])"
_ROW = "[0-9]+[a-z]?"
_AND = "(?: to | and |, )"
_ROWS = rf'(?:, (?:rows?|check) {_ROW}(?:{_AND}{_ROW}(?![\w.]))*|, "\w+")?'
_CITATION = re.compile(rf"\b[Rr]ules ([0-9](?![\w.])|{_NUMBER}){_ROWS}((?:(?:, | and | to ){_NUMBER}{_ROWS})*)")
_NEXT = re.compile(rf"(, | and | to )({_NUMBER}){_ROWS}")
_REFERENCE = re.compile(rf"\(({_NUMBER})(?=[;,)])")
_HEADING = re.compile(r"^(#+) ([0-9](?:\.[0-9]+)*)(?= )", re.MULTILINE)

ODD = {
    "a rule of its own": re.compile(r"\b[Rr]ule [0-9]\.[0-9]"),
    "a section sign or a word between": re.compile(r"\b[Rr]ules (?:§|ch\.|chapter|sections?|no\.) ?[0-9]"),
    "no space between": re.compile(r"\b[Rr]ules[-/:§][0-9]\.[0-9]"),
}
_BARE = re.compile(rf"(?<![0-9] )\((?:see )?{_NUMBER}{_ROWS}(?:(?:, |; | and | to ){_NUMBER}{_ROWS})*\)")


def one_line(text: str) -> str:
    """The text without line breaks and the comment signs after them, which may part a citation."""
    return re.sub(r"\s+(?:# ?)?", " ", text)


def number_of(text: str) -> Number:
    return tuple(map(int, text.split(".")))


def cited_in(text: str, known: Iterable[Number] = ()) -> set[Number]:
    """The sections that a text cites. "3.1 to 3.4" cites what ``known`` has between them, too."""
    cited = set[Number]()
    for citation in _CITATION.finditer(one_line(text)):
        last = number_of(citation[1])
        cited.add(last)
        for join, number in _NEXT.findall(citation[2]):
            first, last = last, number_of(number)
            cited.add(last)
            if join == " to ":
                cited.update(each for each in known if len(each) == len(last) and first < each < last)
    return cited


def rows_in(text: str) -> set[tuple[Number, str]]:
    """The rows of tables that a text cites, each with its section; of "rows 4 to 15" the two that are named."""
    rows = re.findall(rf"({_NUMBER}), (?:rows?|check) ({_ROW}(?:{_AND}{_ROW}(?![\w.]))*)", one_line(text))
    return {(number_of(number), row) for number, several in rows for row in re.findall(_ROW, several)}


def sections_in(page: str) -> dict[Number, str]:
    """What stands below each heading of a page, up to the next one."""
    headings = list(_HEADING.finditer(page))
    ends = [heading.start() for heading in headings[1:]] + [len(page)]
    return {number_of(it[2]): page[it.end() : end].partition("\n")[2] for it, end in zip(headings, ends, strict=True)}


def has_row(body: str, row: str) -> bool:
    """Whether a table of the section has a row of this number."""
    return re.search(rf"^\| {row} \|", body, re.MULTILINE) is not None


def odd_in(text: str) -> list[str]:
    """Citations in another form than "rules 3.10.1"."""
    return [found[0] for form in ODD.values() for found in form.finditer(one_line(text))]


def bare_in(text: str, *, is_python: bool) -> list[str]:
    """Numbers in parentheses without "rules" before them; in a Python file those in comments and strings."""
    if not _BARE.search(one_line(text)):
        return []
    proses = _prose(text) if is_python else [text]
    return [found[0] for prose in proses for found in _BARE.finditer(one_line(prose))]


def _prose(source: str) -> Iterator[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    yield "\n".join(token.string for token in tokens if token.type == tokenize.COMMENT)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def orphans(sections: Iterable[Number], cited: set[Number]) -> list[Number]:
    """Sections that nothing cites. A section leads to those below it, so it stays when one of them is cited."""
    reached = {number[:depth] for number in cited for depth in range(1, len(number) + 1)}
    return sorted(set(sections) - reached)


def files() -> Iterator[Path]:
    """Every file that people write, but for this one and the pages of rules."""
    for folder, names, file_names in os.walk(ROOT):
        names[:] = [name for name in names if name not in GENERATED and name[0] != "." and Path(folder, name) != PAGES]
        paths = (Path(folder, name) for name in file_names)
        yield from (path for path in paths if path.suffix in SUFFIXES and path != Path(__file__))


SECTIONS: Mapping[Number, str] = {
    number: body
    for page in sorted(PAGES.glob("[0-9]*.md"))
    for number, body in sections_in(page.read_text(encoding="utf-8")).items()
}
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files()}
CITED = {name: cited_in(text, SECTIONS) for name, text in TEXTS.items()}


def test_every_cited_section_exists() -> None:
    missing = {name: sorted(cited - SECTIONS.keys()) for name, cited in CITED.items() if cited - SECTIONS.keys()}
    assert missing == {}


@pytest.mark.parametrize(
    "name", [name for name, text in TEXTS.items() if rows_in(text)] + [page.name for page in PAGES.glob("[0-9]*.md")]
)
def test_every_cited_row_exists(name: str) -> None:
    text = TEXTS.get(name) or (PAGES / name).read_text(encoding="utf-8")
    missing = {(number, row) for number, row in rows_in(text) if not has_row(SECTIONS.get(number, ""), row)}
    assert missing == set()


def test_every_section_is_cited() -> None:
    assert orphans(SECTIONS, set().union(*CITED.values())) == []


@pytest.mark.parametrize("page", sorted(PAGES.glob("[0-9]*.md")), ids=lambda page: page.name)
def test_a_page_has_its_chapter_in_order(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    numbers = [number_of(number) for _, number in _HEADING.findall(text)]
    assert numbers == sorted(set(numbers))
    assert {number[0] for number in numbers} == {int(page.name[0])}


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.name)
def test_pages_refer_to_sections_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = {number_of(number) for number in _REFERENCE.findall(one_line(text))} | cited_in(text, SECTIONS)
    assert sorted(named - SECTIONS.keys()) == []


def test_the_index_names_every_page() -> None:
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    linked = re.findall(r"\[([\w.-]+)\]\(\1\)", index)
    assert sorted(linked) == sorted(page.name for page in PAGES.glob("[0-9]*.md"))


def test_citations_have_one_form() -> None:
    assert odd_in("(rule 3.1)") + bare_in("x = f(3.1)  # see (6.1)", is_python=True) == ["rule 3.1", "(6.1)"]
    odd = {name: odd_in(text) + bare_in(text, is_python=name.endswith(".py")) for name, text in TEXTS.items()}
    assert {name: found for name, found in odd.items() if found} == {}
