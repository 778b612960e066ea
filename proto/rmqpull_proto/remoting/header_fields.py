"""``Header``: reads and writes the fields of commands as its subclasses declare them (rules 4.2.2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar, get_args, get_type_hints

from rmqpull_proto.remoting.frames import WireError

Int = Annotated[int, 32]
"""A number of 32 bits, signed."""
Long = Annotated[int, 64]
"""A number of 64 bits, signed."""

_H = TypeVar("_H", bound="Header")
_NUMBER = re.compile(r"[+-]?0*\d{1,19}")


class Column(NamedTuple):
    """How one field is read."""

    attribute: str
    name: str
    parse: Callable[[str], Any]
    kind: str
    is_required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The base of all headers.

    The fields of a subclass are those of a header, named as RocketMQ names them, but in snake case. Their types are
    ``Int``, ``Long``, ``bool`` and ``str``. A field without a default is required.
    """

    names: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """The names of fields on the wire that do not follow from those of the attributes."""
    refuses_bad_numbers: ClassVar[bool] = False
    """Whether RocketMQ refuses bad numbers in optional fields. Otherwise it ignores them (rules 4.2.2)."""

    def to_fields(self) -> dict[str, str]:
        """Returns the fields of a command. Fields that are None are left out."""
        values = [(name, getattr(self, attribute)) for attribute, name, *_ in list_columns(type(self))]
        return {name: _format(value) for name, value in values if value is not None}

    @classmethod
    def from_fields(cls: type[_H], received: Mapping[str, str]) -> _H:
        """Reads the fields of a command by RocketMQ's rules (rules 4.2.2). Unknown fields are ignored.

        Raises ``WireError`` if a required field is missing or not a number.
        """
        values: dict[str, Any] = {}
        for attribute, name, parse, kind, is_required in list_columns(cls):
            text = received.get(name)
            if text is None:
                if is_required:
                    raise WireError(f"field {name} is missing in {cls.__name__}, expected {kind}")
                continue
            try:
                values[attribute] = parse(text)
            except ValueError:
                if is_required or cls.refuses_bad_numbers:
                    raise WireError(f"field {name} is {text[:40]!r} in {cls.__name__}, expected {kind}") from None
        return cls(**values)


def _format(value: str | int) -> str:
    if isinstance(value, str):
        return value
    # "d" writes a member of an enum as its number in every version of Python.
    return str(value).lower() if isinstance(value, bool) else f"{value:d}"


def _parse_bool(text: str) -> bool:
    return text.lower() == "true"


def _parse_int(text: str) -> int:
    return _parse_number(text, 31)


def parse_long(text: str) -> int:
    """Reads a number of 64 bits as Java does. Raises ValueError."""
    return _parse_number(text, 63)


def _parse_number(text: str, bits: int) -> int:
    # Java accepts a sign and zeros before a number, but no blanks and no "_", which Python would.
    if not _NUMBER.fullmatch(text):
        raise ValueError
    number = int(text)
    if not -1 << bits <= number < 1 << bits:
        raise ValueError
    return number


_PARSERS: Mapping[object, tuple[Callable[[str], Any], str]] = {
    str: (str, "a text"),
    bool: (_parse_bool, "true or false"),
    Int: (_parse_int, "a number of 32 bits"),
    Long: (parse_long, "a number of 64 bits"),
}


_COLUMNS: dict[type[Header], tuple[Column, ...]] = {}
"""What ``list_columns`` has found: an entry for each class."""


def list_columns(header: type[Header]) -> tuple[Column, ...]:
    """Returns how to read each field of a header, from its declaration."""
    known = _COLUMNS.get(header)
    if known is not None:
        return known
    kinds = get_type_hints(header, include_extras=True)
    found = []
    for declared in fields(header):
        kind = kinds[declared.name]
        if kind not in _PARSERS:  # "str | None": an optional field
            kind = next(member for member in get_args(kind) if member in _PARSERS)
        first, *others = declared.name.split("_")
        name = header.names.get(declared.name, first + "".join(other.capitalize() for other in others))
        is_required = declared.default is MISSING
        found.append(Column(declared.name, name, *_PARSERS[kind], is_required))
    return _COLUMNS.setdefault(header, tuple(found))
