"""How an option is declared, and how declared options are read.

An option is one field of a frozen dataclass. The field carries everything that is known about the option::

    max_offsets_per_trigger: int | None = option(integer(1, INT64_MAX), unit="messages", doc="…", only=Mode.STREAM)

The option's name is the field's name in camel case, its type is what its parser returns. What the client has as a
setting, it declares: ``option_of(PULL_BATCH_SIZE, integer(1, 1024))``. The tables of options, the
checks of names, the hints to users and the typed values all come from this declaration.
"""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, cast, overload

from rmqpull_client.errors import OptionError
from rmqpull_client.settings import Setting

_T = TypeVar("_T")
_DECLARED = "option"
"""The key of a declaration in the metadata of its field."""
_ADDED_BY_SPARK = frozenset({"checkpointlocation", "queryname", "path"})


class Mode(enum.Enum):
    """The two ways to read. Spark says which one it is only when it asks for a reader."""

    STREAM = "stream"
    BATCH = "batch read"


@dataclass(frozen=True)
class Option:
    """One declared option. See :func:`option` for what the fields mean."""

    attribute: str
    parse: Callable[[str], Any]
    default: str | None
    absent: Any
    unit: str
    doc: str
    only: Mode | None
    is_secret: bool
    kafka_name: str | None
    rocketmq_names: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name that users write: the attribute in camel case."""
        return re.sub("_([a-z])", lambda match: match[1].upper(), self.attribute)


@overload
def option(
    parse: Callable[[str], _T],
    *,
    unit: str,
    doc: str,
    default: str,
    only: Mode | None = None,
    kafka_name: str | None = None,
    rocketmq_names: tuple[str, ...] = (),
) -> _T: ...
@overload
def option(
    parse: Callable[[str], _T],
    *,
    unit: str,
    doc: str,
    only: Mode | None = None,
    is_secret: bool = False,
    kafka_name: str | None = None,
    rocketmq_names: tuple[str, ...] = (),
) -> _T | None: ...
def option(
    parse: Callable[[str], Any],
    *,
    unit: str,
    doc: str,
    default: str | None = None,
    only: Mode | None = None,
    is_secret: bool = False,
    kafka_name: str | None = None,
    rocketmq_names: tuple[str, ...] = (),
) -> Any:
    """Declares an option as a field of a keyword-only dataclass.

    ``parse`` turns the user's text into the value and raises ValueError for bad text. ``unit`` and ``doc`` go into
    the tables. ``default`` is a text, as a user would write it; without it the value is None. ``only`` is the mode
    that knows the option, None for both. The value of a secret is never shown. ``kafka_name`` is the name of the same
    option in Spark's Kafka source, where it differs. ``rocketmq_names`` are its names in RocketMQ's clients.
    """
    about = {"unit": unit, "doc": doc, "only": only, "kafka_name": kafka_name, "rocketmq_names": rocketmq_names}
    return _declare(parse, default, None if default is None else parse(default), is_secret, about)


def option_of(
    setting: Setting[_T],
    parse: Callable[[str], _T],
    *,
    more: str = "",
    only: Mode | None = None,
    is_secret: bool = False,
    kafka_name: str | None = None,
    rocketmq_names: tuple[str, ...] = (),
) -> _T:
    """Declares the option of a setting of the client, like :func:`option`.

    Default, unit and text are those of the setting. ``more`` follows the text: what only Spark's users need to know.
    """
    doc, default = f"{setting.doc} {more}".rstrip(), None if setting.default in (None, "") else str(setting.default)
    about = {"unit": setting.unit, "doc": doc, "only": only, "kafka_name": kafka_name, "rocketmq_names": rocketmq_names}
    return cast("_T", _declare(parse, default, setting.default, is_secret, about))


def _declare(
    parse: Callable[[str], Any], default: str | None, absent: Any, is_secret: bool, about: Mapping[str, Any]
) -> Any:
    declared = {"parse": parse, "default": default, "absent": absent, "is_secret": is_secret, **about}
    return field(default=absent, repr=not is_secret, metadata={_DECLARED: declared})


def list_options(group: type) -> tuple[Option, ...]:
    """Returns the options that a class declares: those of its bases in their order, then its own."""
    inherited = [known for base in group.__bases__ if is_dataclass(base) for known in list_options(base)]
    names = {known.attribute for known in inherited}
    own = [
        Option(entry.name, **entry.metadata[_DECLARED])
        for entry in fields(group)
        if _DECLARED in entry.metadata and entry.name not in names
    ]
    return (*inherited, *own)


@dataclass(frozen=True)
class Given:
    """The names of the options that a user has set, as they are declared, and the mode, when it is known."""

    names: frozenset[str]
    mode: Mode | None = None

    def __contains__(self, name: str) -> bool:
        return name in self.names


def find_given(declared: Iterable[Option], options: Mapping[str, str], mode: Mode | None = None) -> Given:
    """Returns the options that a user has set. Names are case-insensitive; options that Spark adds are ignored.

    Raises OptionError for an unknown option, with the nearest known name.
    """
    known = {entry.name.lower(): entry for entry in declared}
    for name, value in options.items():
        if name.lower() == "path" and value:
            raise OptionError(f"The path {value!r} has no meaning here. Name the topic with option topic.")
        if name.lower() not in known and name.lower() not in _ADDED_BY_SPARK:
            raise OptionError(f"Unknown option {name}. {_make_hint(name, known)}")
    return Given(frozenset(known[name.lower()].name for name in options if name.lower() in known), mode)


def _make_hint(name: str, known: Mapping[str, Option]) -> str:
    for entry in known.values():
        if entry.kafka_name is not None and entry.kafka_name.lower() == name.lower():
            return f"This option of Spark's Kafka source is called {entry.name} here."
        if name.lower() in (known_as.lower() for known_as in entry.rocketmq_names):
            return f"This setting of RocketMQ's clients is called {entry.name} here."
    nearest = difflib.get_close_matches(name.lower(), known, n=1)
    if nearest:
        return f"Did you mean {known[nearest[0]].name}?"
    return f"Known options: {', '.join(entry.name for entry in known.values())}."


def read_values(declared: Iterable[Option], options: Mapping[str, str]) -> dict[str, Any]:
    """Returns the values of all declared options by attribute. Raises OptionError if one is unreadable."""
    given = {name.lower(): value for name, value in options.items()}
    return {entry.attribute: _read_value(entry, given) for entry in declared}


def _read_value(entry: Option, given: Mapping[str, str]) -> Any:
    text = given.get(entry.name.lower(), entry.default)
    if text is None:
        return entry.absent
    try:
        return entry.parse(text)
    except ValueError as error:
        shown = "is set to a value that is not shown here" if entry.is_secret else f"is {text!r}"
        raise OptionError(f"Option {entry.name} {shown}. {error}") from None


def refuse_other_side(own: Sequence[Option], others: Sequence[Option], options: Mapping[str, str], why: str) -> None:
    """Raises OptionError for an option that only the other side has; ``why`` reads like "writes, and this is a read".

    A temporary view of SQL hands all its options to reads and to ``INSERT INTO``, and an ``INSERT INTO`` looks the
    same as ``df.write``. So an option without effect is refused: users must not think that it worked.
    """
    own_names = {entry.name.lower() for entry in own}
    other_names = {entry.name.lower(): entry.name for entry in others}
    for name in options:
        if name.lower() in other_names and name.lower() not in own_names:
            raise OptionError(
                f"Option {other_names[name.lower()]} is for {why}. Remove it. If it comes from a SQL view, create a "
                "second view without it."
            )
