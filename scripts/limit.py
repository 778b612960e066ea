"""A limit that a user can meet, and the reasons that several limits share."""

from __future__ import annotations

import importlib
from operator import attrgetter
from typing import NamedTuple

PACKAGE = "rmqpull_broker"


class Limit(NamedTuple):
    """``constant`` is ``module:NAME`` within the broker's package; ``whose`` is Apache's, with its section, or ours."""

    what: str
    constant: str
    unit: str
    beyond: str
    whose: str

    @property
    def value(self) -> int:
        """What the broker works with."""
        module, _, name = self.constant.partition(":")
        value: int = attrgetter(name)(importlib.import_module(f"{PACKAGE}.{module}"))
        return value


def amount(value: int, unit: str) -> str:
    """A number with its unit, in the largest that leaves it whole."""
    for factor, larger in {"bytes": ((1 << 20, "MiB"), (1 << 10, "KiB")), "ms": ((3_600_000, "h"), (1_000, "s"))}.get(
        unit, ()
    ):
        if value % factor == 0:
            return f"{value // factor:,} {larger}"
    return f"{value:,} {unit}".rstrip()


ONE_AT_A_TIME = "ours: it is taken in at one go, and nobody else is served meanwhile"
MEMORY = "ours: memory is bounded"
WAITS = "ours: every wait has an end"
APACHES = "Apache's (rules 5.11)"
PROPERTIES_TOO_LARGE = "MESSAGE_PROPERTIES_TOO_LARGE"
STREAM_ENDS = "the stream ends with INVALID_ARGUMENT"
