"""Parsers of option values, as functions from text to value that raise ValueError with what they expect.

Functions that make a parser are named after the values that it accepts, so that declarations read well.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable

from pyspark_rmqpull.options.json_parsers import CONSUMERS_MAX, find_repeated
from rmqpull_client.connection import parse_addresses, parse_broker_addresses
from rmqpull_client.light_queues import is_legal, is_light, is_lite_name

_UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_BROKER_ADDRESSES_EXPECTED = (
    "Expected the addresses of brokers by name, such as broker-a=localhost:10911, or by name and id for slaves, such "
    "as broker-a:1=localhost:10921, separated by semicolons."
)
_UNIT_BITS = {"b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40}


def one_of(*words: str) -> Callable[[str], str]:
    """Accepts these words in any case."""
    known = {word.lower(): word for word in words}

    def parse(text: str) -> str:
        wanted = text.strip().lower()
        if wanted not in known:
            nearest = difflib.get_close_matches(wanted, known, n=1)
            hint = f"Did you mean {known[nearest[0]]}? " if nearest else ""
            raise ValueError(f"{hint}Expected {', '.join(words[:-1])} or {words[-1]}.")
        return known[wanted]

    return parse


def matching(pattern: str, expected: str) -> Callable[[str], str]:
    """Accepts texts that match a regular expression as a whole."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"Expected {expected}.")
        return text

    return parse


def resource_name(length_max: int) -> Callable[[str], str]:
    """Accepts RocketMQ's names of at most ``length_max`` characters (rules 3.10.1)."""
    return matching(rf"[%|a-zA-Z0-9_-]{{1,{length_max}}}", f"1 to {length_max} of the characters a-z A-Z 0-9 _ - % |")


def integer(least: int, most: int) -> Callable[[str], int]:
    """Accepts integers from ``least`` to ``most``."""

    def parse(text: str) -> int:
        value = int(text) if re.fullmatch(r"[0-9]{1,19}", text.strip()) else -1
        if not least <= value <= most:
            raise ValueError(f"Expected an integer from {least} to {most}.")
        return value

    return parse


def duration_ms(least_ms: int, most_ms: int) -> Callable[[str], int]:
    """Accepts durations as Spark spells them: a number of milliseconds, or a number with a unit from us to d."""

    def parse(text: str) -> int:
        match = re.fullmatch(r"([0-9]{1,19}) *(us|ms|s|m|min|h|d)?", text.strip().lower(), re.ASCII)
        value = -1 if match is None else int(match[1]) * _UNITS_US[match[2] or "ms"] // 1_000
        if not least_ms <= value <= most_ms:
            raise ValueError(f"Expected a duration from {least_ms} ms to {most_ms} ms, such as 15m, 5s or 500ms.")
        return value

    return parse


def size_in_bytes(least: int, most: int) -> Callable[[str], int]:
    """Accepts sizes as Spark spells them: a number of bytes, or a number with a unit from k (1024) to t."""

    def parse(text: str) -> int:
        match = re.fullmatch(r"([0-9]{1,19})([kmgt]?b|[kmgt])?", text.strip().lower(), re.ASCII)
        value = -1 if match is None else int(match[1]) << _UNIT_BITS[match[2] or "b"]
        if not least <= value <= most:
            raise ValueError(f"Expected a size from {least} to {most} bytes, such as 64m, 512k or 1000000.")
        return value

    return parse


def parse_boolean(text: str) -> bool:
    """Parses ``true`` or ``false`` in any case."""
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("Expected true or false.")
    return text.strip().lower() == "true"


def addresses(example: str) -> Callable[[str], str]:
    """Accepts addresses HOST:PORT separated by semicolons. Returns each once."""

    def parse(text: str) -> str:
        try:
            return ";".join(parse_addresses(text))
        except ValueError:
            expected = f"Expected HOST:PORT, such as {example}, or several of them separated by semicolons."
            raise ValueError(expected) from None

    return parse


def parse_addresses_of_brokers(text: str) -> str:
    """Parses addresses of brokers by name and id. Returns the text."""
    try:
        parse_broker_addresses(text)
    except ValueError as error:
        raise ValueError(f"{error} {_BROKER_ADDRESSES_EXPECTED}") from None
    return text


def parse_path(text: str) -> str:
    """Parses the path of a file or a directory."""
    if not text.strip() or "\0" in text:
        raise ValueError("Expected a path.")
    return text


def parse_names(text: str) -> tuple[str, ...]:
    """Parses names separated by commas."""
    return tuple(name.strip() for name in text.split(","))


def parse_topics(text: str) -> tuple[str, ...]:
    """Parses names of topics separated by commas."""
    names = parse_names(text)
    for name in names:
        if is_light(name):
            if not is_legal(name):
                raise ValueError(
                    "Expected light message queues such as %LMQ%orders-of-7 (printable ASCII without spaces, commas "
                    "and slashes), and lite topics such as %LMQ%$PARENT_TOPIC$LITE_TOPIC (a-z A-Z 0-9 _ -)."
                )
        elif not re.fullmatch(r"[%|a-zA-Z0-9_-]{1,127}", name):
            raise ValueError("Expected names separated by commas, each 1 to 127 of the characters a-z A-Z 0-9 _ - % |.")
    if repeated := find_repeated(names):
        raise ValueError(f"It names {repeated[0]!r} twice. Name each topic once.")
    return names


def parse_lite_topics(text: str) -> tuple[str, ...]:
    """Parses names of lite topics separated by commas."""
    names = parse_names(text)
    if not all(map(is_lite_name, names)):
        raise ValueError("Expected names separated by commas, each 1 to 64 of the characters a-z A-Z 0-9 _ -.")
    if repeated := find_repeated(names):
        raise ValueError(f"It names {repeated[0]!r} twice. Name each lite topic once.")
    return names


def parse_topic_pattern(text: str) -> str:
    """Parses a regular expression for names of topics."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"It is not a regular expression of Python ({error}).") from None
    if not text:
        raise ValueError("It is empty, so it matches no topic. Expected a regular expression, such as orders-.*")
    return text


def parse_consumers(text: str) -> tuple[str, ...]:
    """Parses consumer ids or machine rooms separated by commas. Returns them sorted as RocketMQ sorts consumer ids."""
    names = parse_names(text)
    if not all(re.fullmatch("[!-~]+", name) for name in names) or len(names) > CONSUMERS_MAX:
        raise ValueError(f"Expected 1 to {CONSUMERS_MAX} names in ASCII without spaces, separated by commas.")
    if repeated := find_repeated(names):
        raise ValueError(f"It names {repeated[0]} twice.")
    return tuple(sorted(names))
