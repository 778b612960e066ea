"""Which properties of a message a server cannot carry, found in columns.

A property cannot be carried if its name is RocketMQ's own (rules 5.11), or if a character in it would end its name or
its value early (rules 4.8) or is refused by the server (rules 5.11, row 8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_proto.remoting.properties import NAME_END, NOT_WRITABLE, VALUE_END

_FEW = 4
_NOT_WRITABLE = pa.array(sorted(NOT_WRITABLE), pa.string())


class Characters(NamedTuple):
    """Characters that a text cannot have.

    ``pattern`` finds them, in RE2's syntax. ``first_bytes`` are the bytes with which they begin in UTF-8: scanning all
    bytes at once takes a fraction of the time of searching each text.
    """

    pattern: str
    first_bytes: bytes
    text: str

    def find(self, texts: pa.Array) -> pa.Array | None:
        """Returns for each text whether it has one of the characters; None if no text has one."""
        content = texts.buffers()[2]
        if content is None or not content.size or not len(texts):
            return None
        bounds = pc.min_max(pa.Array.from_buffers(pa.uint8(), content.size, [None, content], 0))
        least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
        if not any(least <= byte <= greatest for byte in self.first_bytes):
            return None
        data = content.to_pybytes()
        if len(self.first_bytes) <= _FEW:  # looking for one byte is much faster than looking for one of a set
            is_free = not any(byte in data for byte in self.first_bytes)
        else:
            is_free = len(data.translate(None, self.first_bytes)) == len(data)
        if is_free:
            return None
        return pc.fill_null(pc.match_substring_regex(texts, self.pattern), False)


SEPARATORS = Characters(
    f"[{NAME_END}{VALUE_END}]",
    f"{NAME_END}{VALUE_END}".encode(),
    "a character 1 or 2, with which RocketMQ separates properties",
)
_VALUE_END = Characters(VALUE_END, VALUE_END.encode(), "a character 2, with which RocketMQ ends a value")
_CONTROLS = Characters(
    r"[\x00-\x1f\x7f-\x{9f}]", bytes([*range(0x20), 0x7F, 0xC2]), "a control character, which the server refuses"
)


class PropertyRules(NamedTuple):
    """What a server cannot carry in names and in values, besides nulls and RocketMQ's own names."""

    in_names: Characters
    in_values: Characters
    needs_text: bool
    """Whether an empty name or value is lost."""


KEPT_BY_BROKERS = PropertyRules(SEPARATORS, _VALUE_END, needs_text=True)
"""Over the remoting protocol. A value may have character 1: a reader splits an entry at the first one (rules 4.8)."""
KEPT_IN_COLUMNS = PropertyRules(_CONTROLS, _CONTROLS, needs_text=False)
"""Over our extension of the gRPC protocol."""
KEPT_BY_PROXIES = KEPT_IN_COLUMNS._replace(needs_text=True)
"""Over the standard gRPC protocol alone: behind a proxy are brokers, which store no empty properties (rules 4.8)."""


class BrokenRule(NamedTuple):
    """For each property whether it breaks a rule, and the reason, by the index of the property."""

    properties: pa.Array
    explain: Callable[[int], str]


def find_uncarried(
    names: pa.Array, values: pa.Array, rules: PropertyRules, different_names: pa.Array | None = None
) -> Iterator[BrokenRule]:
    """Yields the rules that some properties may break, in order of precedence.

    ``different_names`` has each of the names at least once: with it, names that many properties have are looked at
    once.
    """
    if rules.needs_text:
        yield BrokenRule(_is_empty(names), lambda _: "a property has an empty name")
    if different_names is None or pc.any(pc.is_in(different_names, value_set=_NOT_WRITABLE)).as_py():
        own = pc.is_in(names, value_set=_NOT_WRITABLE)
        yield BrokenRule(own, lambda index: f"property {names[index]} is RocketMQ's own")
    if values.null_count:
        yield BrokenRule(values.is_null(), lambda _: "one of its properties is null")
    if rules.needs_text:
        yield BrokenRule(
            _is_empty(values), lambda index: f"property {names[index]} is empty, and RocketMQ drops empty properties"
        )
    for texts, characters, what in (
        (names, rules.in_names, "the name of a property"),
        (values, rules.in_values, "the value of a property"),
    ):
        found = characters.find(texts)
        if found is not None:
            yield BrokenRule(found, _always(f"{what} has {characters.text}"))


def _always(reason: str) -> Callable[[int], str]:
    return lambda _: reason


def _is_empty(texts: pa.Array) -> pa.Array:
    return pc.fill_null(pc.equal(pc.binary_length(texts), 0), True)
