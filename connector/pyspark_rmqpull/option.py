"""The form in which an option is declared."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Mode(enum.Enum):
    """The two ways to read; Spark tells them apart only when it asks for a reader."""

    STREAM = "stream"
    BATCH = "batch read"


@dataclass(frozen=True)
class Option:
    """One option. ``default`` is written as a user would; None means that there is none.

    ``only`` is the mode without which it means nothing; None for both.
    """

    name: str
    default: str | None
    unit: str
    doc: str
    parse: Callable[[str], Any]
    is_required: bool = False
    only: Mode | None = None

    @property
    def attribute(self) -> str:
        """The name in Python."""
        return re.sub(r"([A-Z])", lambda match: "_" + match[1].lower(), self.name)


def one_of(*words: str) -> Callable[[str], str]:
    """A parser of words in any case."""

    def parse(text: str) -> str:
        found = next((word for word in words if word.lower() == text.strip().lower()), None)
        if found is None:
            raise ValueError(f"Expected {', '.join(words[:-1])} or {words[-1]}.")
        return found

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
