"""Long JSON bodies, part by part."""

from __future__ import annotations

from rmqpull_broker.server.remoting.wire.json_parts import Parts, join_entries, write_entry, write_list, write_table
from rmqpull_proto.remoting.json_dialect import read_json


def join(parts: Parts) -> bytes:
    return b"".join(part for part in parts if part is not None)


def test_a_table_has_its_other_fields_at_the_end() -> None:
    sums = {"sum": 0}

    def entries() -> Parts:
        for number in (1, 2):
            sums["sum"] += number
            yield write_entry(f"n{number}", number)[0]

    assert join(write_table("table", ((entry,) for entry in entries()), sums)) == b'{"table":{"n1":1,"n2":2},"sum":3}'
    assert join(write_table("table", [], {})) == b'{"table":{}}'
    assert join(write_table("table", [write_entry({"b": 1, "a": 2}, None)], {})) == b'{"table":{{"a":2,"b":1}:null}}'


def test_entries_without_parts_and_steps_without_a_result_leave_no_comma() -> None:
    entries: list[list[bytes | None]] = [[None], [b"1", None, b"2"], [], [None, b"3"], [None]]
    assert join(write_list("list", entries, {"b": 1, "a": 2})) == b'{"list":[12,3],"a":2,"b":1}'
    assert [part for part in write_list("list", entries, {}) if part is None] == [None] * 4


def test_lists_in_lists() -> None:
    inner = [join_entries(b"[", [(b"1",), (b"2",)], b"]") for _ in range(2)]
    assert read_json(join(write_list("list", inner, {}))) == {"list": [[1, 2], [1, 2]]}
