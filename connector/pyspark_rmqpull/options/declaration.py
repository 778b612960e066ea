"""The form in which an option is declared."""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark_rmqpull.options.kafka_names import named_here
from rmqpull_client.errors import OptionError

_ADDED_BY_SPARK = frozenset({"checkpointlocation", "queryname", "path"})
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_UNIT_BITS = {"b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40}


class Mode(enum.Enum):
    """The two ways to read; Spark tells them apart only when it asks for a reader."""

    STREAM = "stream"
    BATCH = "batch read"


@dataclass(frozen=True)
class Option:
    """One option. ``default`` is written as a user would; None means that there is none.

    ``only`` is the mode without which it means nothing; None for both. A secret's value is never shown.
    """

    name: str
    default: str | None
    unit: str
    doc: str
    parse: Callable[[str], Any]
    is_required: bool = False
    only: Mode | None = None
    is_secret: bool = False

    @property
    def attribute(self) -> str:
        """The name in Python."""
        return re.sub(r"([A-Z])", lambda match: "_" + match[1].lower(), self.name)


def read_options(declared: Sequence[Option], options: Mapping[str, str]) -> dict[str, Any]:
    """The values of all declared options, by their names in Python; those given come in any case.

    Raises OptionError for an option that is unknown, missing or unreadable.
    """
    refuse_unknown(declared, options)
    given = {name.lower(): value for name, value in options.items()}
    return {option.attribute: _value(option, given) for option in declared}


def refuse_unknown(declared: Sequence[Option], options: Mapping[str, str]) -> None:
    """Raises OptionError, with the nearest name, for an option that neither this source nor Spark has (rules 7.7)."""
    known = {option.name.lower(): option.name for option in declared}
    for name, value in options.items():
        if name.lower() == "path" and value:
            raise OptionError(f"A path was given, {value!r}, which means nothing here. Use option topic.")
        if name.lower() not in known and name.lower() not in _ADDED_BY_SPARK:
            raise OptionError(f"Unknown option {name}. {_hint(name, known)}")


def _hint(name: str, known: Mapping[str, str]) -> str:
    of_kafka = named_here(name)
    if of_kafka in known.values():
        return f"What Spark's Kafka source calls so is {of_kafka} here."
    nearest = difflib.get_close_matches(name.lower(), known, n=1)
    return f"Did you mean {known[nearest[0]]}?" if nearest else f"There are: {', '.join(known.values())}."


def refuse_misplaced(own: Sequence[Option], others: Sequence[Option], options: Mapping[str, str], sides: str) -> None:
    """Raises OptionError for an option that only the other side has; ``sides`` is as "reads, and this is a write".

    A temporary view of SQL gives all its options to reads and to ``INSERT INTO`` alike, and nothing tells an
    ``INSERT INTO`` from ``df.write``: where an option of a view means nothing, the user is told rather than left to
    think that it did.
    """
    names_of_own = {option.name.lower() for option in own}
    names_of_others = {option.name.lower(): option.name for option in others}
    for name in options:
        if name.lower() in names_of_others and name.lower() not in names_of_own:
            raise OptionError(
                f"Option {names_of_others[name.lower()]} is for {sides}. Leave it out; of a SQL view that has it, make "
                "another one without it."
            )


def _value(option: Option, given: Mapping[str, str]) -> Any:
    text = given.get(option.name.lower(), option.default)
    if text is None:
        if option.is_required:
            raise OptionError(f"Option {option.name} is missing. {option.doc} Set it with .option({option.name!r}, …).")
        return None
    try:
        return option.parse(text)
    except ValueError as error:
        shown = "set to something that is not shown here" if option.is_secret else repr(text)
        raise OptionError(f"Option {option.name} is {shown}. {error}") from None


def one_of(*words: str) -> Callable[[str], str]:
    """A parser of words in any case."""
    known = {word.lower(): word for word in words}

    def parse(text: str) -> str:
        wanted = text.strip().lower()
        if wanted not in known:
            nearest = difflib.get_close_matches(wanted, known, n=1)
            hint = f"Did you mean {known[nearest[0]]}? " if nearest else ""
            raise ValueError(f"{hint}Expected {', '.join(words[:-1])} or {words[-1]}.")
        return known[wanted]

    return parse


def boolean(text: str) -> bool:
    """A parser of ``true`` and ``false``."""
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("Expected true or false.")
    return text.strip().lower() == "true"


def names(text: str) -> tuple[str, ...]:
    """A parser of names with commas between."""
    return tuple(name.strip() for name in text.split(","))


def resource_name(length_max: int) -> Callable[[str], str]:
    """A parser of RocketMQ's names of at most ``length_max`` characters (rules 3.9.2, 5.5)."""

    def parse(text: str) -> str:
        if not _NAME.fullmatch(text) or len(text) > length_max:
            raise ValueError(f"Expected 1 to {length_max} of the characters a-z A-Z 0-9 _ - % |.")
        return text

    return parse


def duration_ms(least_ms: int, most_ms: int) -> Callable[[str], int]:
    """A parser of durations as Spark spells them: a number of milliseconds, or with a unit from ``us`` to ``d``."""

    def parse(text: str) -> int:
        match = re.fullmatch(r"([0-9]{1,19}) *(us|ms|s|m|min|h|d)?", text.strip().lower(), re.ASCII)
        value = -1 if match is None else int(match[1]) * _UNITS_US[match[2] or "ms"] // 1_000
        if not least_ms <= value <= most_ms:
            raise ValueError(f"Expected a duration from {least_ms} ms to {most_ms} ms, such as 15m, 5s or 500ms.")
        return value

    return parse


def size_in_bytes(least: int, most: int) -> Callable[[str], int]:
    """A parser of sizes as Spark spells them: a number of bytes, or with a unit from ``k`` (1024) to ``t``."""

    def parse(text: str) -> int:
        match = re.fullmatch(r"([0-9]{1,19})([kmgt]?b|[kmgt])?", text.strip().lower(), re.ASCII)
        value = -1 if match is None else int(match[1]) << _UNIT_BITS[match[2] or "b"]
        if not least <= value <= most:
            raise ValueError(f"Expected a size from {least} to {most} bytes, such as 64m, 512k or 1000000.")
        return value

    return parse


def integer(least: int, most: int) -> Callable[[str], int]:
    """A parser of integers in ``[least, most]``."""
    wanted = f"an integer from {least} to {most}"

    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,19}", text.strip()):
            raise ValueError(f"Expected {wanted}.")
        value = int(text)
        if not least <= value <= most:
            raise ValueError(f"Expected {wanted}.")
        return value

    return parse
