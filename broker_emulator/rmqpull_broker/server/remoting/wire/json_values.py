"""Values in JSON bodies, read as leniently as fastjson reads them (rules 4.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.json_dialect import read_json

REQUEST_VALUES_MAX = 131_072
"""Values in the JSON body of a request. A heartbeat of 5,000 subscriptions has half of them."""

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")


def read_object(body: bytes | memoryview, what: str, *, values_max: int | None = None) -> Mapping[str, Any]:
    """Reads a body that is one object. For ``values_max`` see :func:`read_json`. Raises ``WireError``."""
    return as_object(read_json(body, values_max=values_max), what)


def as_object(value: Any, what: str) -> Mapping[str, Any]:
    """Returns a value that is an object. Raises ``WireError`` for any other."""
    if not isinstance(value, dict):
        raise WireError(f"the body of the {what} is {str(value)[:60]!r}, expected an object")
    return value


def read_value(data: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    """Reads a value. A null counts as missing. A number may be a text, and the reverse. Raises ``WireError``."""
    value = data.get(name)
    if value is None:
        return default
    if kind is str and isinstance(value, (int, float)):
        return str(value)
    if kind is int and isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise WireError(f"{name} is {str(value)[:60]!r}, expected {kind.__name__}")
    return value


def read_objects(data: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    """Reads a list of objects, which may be missing. Raises ``WireError``."""
    values: Sequence[Any] = read_value(data, name, list, [])
    for value in values:
        if not isinstance(value, dict):
            raise WireError(f"{name} has {str(value)[:60]!r}, expected objects")
    return values


def read_enum(data: Mapping[str, Any], name: str, values: Sequence[str], default: str) -> str:
    """Reads a value of an enum, by its name or by its position. An unknown name is ignored. Raises ``WireError``."""
    value = data.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < len(values):
            raise WireError(f"{name} is {value}, expected 0 to {len(values) - 1}")
        return values[value]
    return value if isinstance(value, str) and value in values else default
