"""A limit that users can meet, and the reasons that several limits share."""

from __future__ import annotations

import importlib
from operator import attrgetter
from typing import NamedTuple

PACKAGE = "rmqpull_broker"


class Limit(NamedTuple):
    """A limit of the broker. ``constant`` is ``module:NAME`` within the broker's package, or in ``rmqpull_proto``.

    ``whose`` is "Apache's" with the rule, or "ours" with the reason.
    """

    what: str
    constant: str
    unit: str
    beyond: str
    whose: str

    @property
    def value(self) -> int:
        """The value of the constant."""
        module, _, name = self.constant.partition(":")
        value: int = attrgetter(name)(
            importlib.import_module(module if module.startswith("rmqpull_") else f"{PACKAGE}.{module}")
        )
        return value


def amount(value: int, unit: str) -> str:
    """Formats a number in the largest unit that leaves it whole."""
    for factor, larger in {"bytes": ((1 << 20, "MiB"), (1 << 10, "KiB")), "ms": ((3_600_000, "h"), (1_000, "s"))}.get(
        unit, ()
    ):
        if value % factor == 0:
            return f"{value // factor:,} {larger}"
    return f"{value:,} {unit}".rstrip()


ONE_AT_A_TIME = "ours: other calls wait while it is processed"
MEMORY = "ours: limits memory"
FAIR_SHARE = "ours: limits memory; [shared fairly](#fair-shares)"
WAITS = "ours: limits waiting"
APACHES = "Apache's (rules 5.11)"
PROPERTIES_TOO_LARGE = "MESSAGE_PROPERTIES_TOO_LARGE"
STREAM_ENDS = "the stream ends with INVALID_ARGUMENT"
