"""Words that CONTRIBUTING.md gives one meaning, as far as a pattern finds another word for it without false alarms."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
FOLDERS = (
    "bench",
    "broker_emulator",
    "connector",
    "demo",
    "docs",
    "examples",
    "processes",
    "proto",
    "scripts",
    "soak",
    "tests",
)
SUFFIXES = {".py", ".pyi", ".proto", ".java", ".md"}
# Pages with words of others: Apache's and Kafka's texts and complaints, releases that are over; and the table of words.
OTHERS = ("docs/rules/", "docs/kafka-options.md", "CHANGELOG.md", "CONTRIBUTING.md", "proto/rmqpull_proto/apache/")
WORDS = {
    "consumer offsets are set": re.compile(
        r"\bcommit(s|ted|ting)? (its|their|the|an?|no) (consumer )?offsets?\b"
        r"|\bcommitted (consumer )?offsets?\b"
        r"|\boffsets? (is|are|was|were|has been|have been|been) committed\b"
        r"|\bto commit (an? )?(consumer )?offsets?\b",
        re.IGNORECASE,
    ),
    "a fault affects a call": re.compile(r"\bstrik(e|es|ing)\b|(?<=_)strikes?(?=_)", re.IGNORECASE),
    "a message is redelivered, or becomes visible again": re.compile(r"\b(messages?|it|they) comes? again\b"),
    "a benchmark has workloads": re.compile(r"\b(the|these|all|some|other|of) works\b(?! (with|as|in|on|like|for))"),
    "a number in a queue is an offset": re.compile(r"\bqueue positions?\b|\bposition in (the|its|a) queue\b"),
    "a request is in flight": re.compile(r"\brequests? (is|are) under way\b"),
}
"""What to write, and what it replaces."""


def find_words(text: str) -> list[str]:
    """Returns what should be written differently, each with what was found."""
    joined = " ".join(line.strip(" #/*") for line in text.splitlines())
    return [f"{better}, not: {match[0]}" for better, found in WORDS.items() for match in found.finditer(joined)]


def list_files() -> Iterator[str]:
    found = (file for folder in FOLDERS for file in (REPOSITORY / folder).rglob("*") if file.suffix in SUFFIXES)
    names = (file.relative_to(REPOSITORY).as_posix() for file in found)
    return (name for name in ("README.md", "Makefile", ".ci/nightly", *names) if not name.startswith(OTHERS))


def test_words_have_the_meaning_of_the_table() -> None:
    own = Path(__file__).relative_to(REPOSITORY).as_posix()
    found = {name: find_words((REPOSITORY / name).read_text(encoding="utf-8")) for name in list_files() if name != own}
    assert found
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize(
    "text",
    [
        "The pull commits its offset.",
        "The committed consumer offset is 3.",
        "Offsets were\n    # not read, and no offset is committed.",
        "A rule strikes the next call.",
        "def test_a_rule_strikes_calls() -> None:",
        "The message comes again after a minute.",
        "Runs all works, one after the other.",
        "The position in the queue is an offset.",
    ],
)
def test_another_word_is_found(text: str) -> None:
    assert len(find_words(text)) == 1


def test_words_with_their_own_meaning_are_not_found() -> None:
    for text in ("It commits the stages.", "CommitOffsets sets offsets.", "The rest of it works.", "the commit log"):
        assert find_words(text) == []
