"""Flags that only clients of the remoting protocol see (rules 4.7)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rmqpull_broker.core.messages.hidden_properties import (
    FLAG,
    SYS_FLAG,
    drop_hidden,
    drop_hidden_columns,
    has_hidden,
    hide_flags,
    read_hidden,
)

OWN = pa.map_(pa.string(), pa.string())
ROWS = [
    [("WAIT", "true")],
    [(FLAG, "-7"), ("WAIT", "true"), (SYS_FLAG, "2")],
    [],
    [(SYS_FLAG, "8")],
    [("PGROUP", "p"), ("WAIT", "true")],
]


def test_zeros_are_not_stored() -> None:
    assert hide_flags(0, 0) == {}
    assert hide_flags(-7, 0) == {FLAG: "-7"}
    assert hide_flags(0, 2) == {SYS_FLAG: "2"}


def test_hidden_properties_are_dropped() -> None:
    assert drop_hidden({"WAIT": "true", **hide_flags(1, 2)}) == {"WAIT": "true"}
    assert drop_hidden({"WAIT": "true"}) == {"WAIT": "true"}


@pytest.mark.parametrize(("start", "count"), [(0, 5), (1, 4), (1, 1), (2, 2), (0, 1), (4, 1), (0, 0)])
def test_columns_follow_the_same_rule_in_each_slice(start: int, count: int) -> None:
    rows = ROWS[start : start + count]
    maps = pa.array(ROWS, OWN).slice(start, count)
    assert has_hidden(maps) == any(FLAG in dict(row) or SYS_FLAG in dict(row) for row in rows)
    dropped = drop_hidden_columns(maps)
    dropped.validate(full=True)
    assert dropped.to_pylist() == [[*drop_hidden(dict(row)).items()] for row in rows]
    assert read_hidden(maps, FLAG).to_pylist() == [int(dict(row).get(FLAG, 0)) for row in rows]
    assert read_hidden(maps, SYS_FLAG).to_pylist() == [int(dict(row).get(SYS_FLAG, 0)) for row in rows]
