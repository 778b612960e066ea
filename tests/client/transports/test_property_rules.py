"""Which properties a server cannot carry: those that a reader does not get back, and those that proxies refuse."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client.transports.property_rules import (
    KEPT_BY_BROKERS,
    KEPT_BY_PROXIES,
    KEPT_IN_COLUMNS,
    PropertyRules,
    find_uncarried,
)
from rmqpull_proto.remoting.properties import decode_properties

NAMES, VALUES = st.text("ab\x01\x02\n\x85£é", max_size=3), st.text("b\x01\x02\0\x7f\x85£é", max_size=3)


def find(name: str, value: str | None, rules: PropertyRules) -> list[str]:
    """Returns the reasons for which a property, the second of two, cannot be carried."""
    names, values = (pa.array(["first", text], pa.string()) for text in (name, value))
    found = [(rule.properties.to_pylist(), rule.explain(1)) for rule in find_uncarried(names, values, rules)]
    assert not any(first for (first, _), _ in found)
    return [reason for (_, is_broken), reason in found if is_broken]


@given(NAMES, VALUES)
def test_what_brokers_carry_is_what_a_reader_of_the_text_gets_back(name: str, value: str) -> None:
    is_read_back = decode_properties(f"{name}\x01{value}\x02k\x01v\x02") == {name: value, "k": "v"}
    assert (find(name, value, KEPT_BY_BROKERS) == []) == is_read_back


@given(NAMES, VALUES)
def test_what_columns_and_proxies_carry_has_no_control_characters(name: str, value: str) -> None:
    """The brokers behind a proxy have no empty properties either."""
    has_control = any(ord(character) < 0x20 or 0x7F <= ord(character) <= 0x9F for character in name + value)
    assert (find(name, value, KEPT_IN_COLUMNS) == []) == (not has_control)
    assert (find(name, value, KEPT_BY_PROXIES) == []) == (not has_control and bool(name) and bool(value))


@pytest.mark.parametrize("rules", [KEPT_BY_BROKERS, KEPT_BY_PROXIES])
def test_the_first_reason_is_the_name(rules: PropertyRules) -> None:
    assert find("REDIRECT", "\x02", rules)[0] == "property REDIRECT is RocketMQ's own"
    assert find("a", None, rules)[0] == "one of its properties is null"


@given(st.lists(st.sampled_from(["first", "TAGS", "a"]), min_size=1, max_size=4))
def test_names_that_are_looked_at_once_are_judged_alike(names: list[str]) -> None:
    texts, values = pa.array(names), pa.array(["v"] * len(names))

    def judge(*different: pa.Array) -> list[bool]:
        found = [rule.properties.to_pylist() for rule in find_uncarried(texts, values, KEPT_IN_COLUMNS, *different)]
        return [any(of_row) for of_row in zip(*found, strict=True)] or [False] * len(names)

    assert judge(texts.unique()) == judge() == [name == "TAGS" for name in names]
