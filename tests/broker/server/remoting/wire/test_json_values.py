"""Values in JSON bodies, as lenient as fastjson."""

from __future__ import annotations

from typing import Any

import pytest

from rmqpull_broker.server.remoting.wire.json_values import as_object, read_enum, read_object, read_objects, read_value
from rmqpull_proto.remoting.frames import WireError

KINDS = ("FIRST", "SECOND")


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("a", str, "a"),
        (7, str, "7"),
        ("-7", int, -7),
        (7, int, 7),
        (True, bool, True),
        (None, int, "default"),
        ({"b": 1}, dict, {"b": 1}),
    ],
)
def test_a_value_is_read_as_its_kind(value: Any, kind: type, expected: Any) -> None:
    assert read_value({"name": value}, "name", kind, "default") == expected
    assert read_value({}, "name", kind, "default") == "default"


@pytest.mark.parametrize(("value", "kind"), [("x", int), (True, int), ("true", bool), ([], str), ("1" * 20, int)])
def test_a_value_of_another_kind_is_refused(value: Any, kind: type) -> None:
    with pytest.raises(WireError, match="name is "):
        read_value({"name": value}, "name", kind, None)


@pytest.mark.parametrize(("value", "expected"), [("SECOND", "SECOND"), (1, "SECOND"), ("new", "none"), (None, "none")])
def test_an_enum_is_read_by_name_or_position(value: Any, expected: str) -> None:
    assert read_enum({"name": value}, "name", KINDS, "none") == expected


@pytest.mark.parametrize("value", [2, -1])
def test_a_position_that_an_enum_does_not_have_is_refused(value: int) -> None:
    with pytest.raises(WireError):
        read_enum({"name": value}, "name", KINDS, "none")


def test_objects() -> None:
    assert read_object(b'{"a":1}', "body") == as_object({"a": 1}, "body") == {"a": 1}
    assert read_objects({"names": [{"a": 1}]}, "names") == [{"a": 1}]
    assert read_objects({}, "names") == []
    for body in (b"[]", b"3", b""):
        with pytest.raises(WireError):
            read_object(body, "body")
    with pytest.raises(WireError):
        read_objects({"names": [1]}, "names")
