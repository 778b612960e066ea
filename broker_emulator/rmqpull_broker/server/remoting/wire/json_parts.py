"""Long JSON bodies, written part by part, so that whoever writes them can do other work in between.

An entry is one part or several. None among the parts says that work was done that gave none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rmqpull_proto.remoting.json_dialect import write_json

Parts = Iterator[bytes | None]
Entries = Iterable[Iterable[bytes | None]]


def write_table(name: str, entries: Entries, others: Mapping[str, Any]) -> Parts:
    """Writes an object whose field ``name`` is a table. An entry is its key, a colon, and its value.

    ``others`` are its other fields, which are written last: they may change with the entries.
    """
    yield from join_entries(b"{" + write_json(name) + b":{", entries, b"}")
    yield _write_last(others)


def write_list(name: str, entries: Entries, others: Mapping[str, Any]) -> Parts:
    """Writes an object whose field ``name`` is a list, like :func:`write_table`."""
    yield from join_entries(b"{" + write_json(name) + b":[", entries, b"]")
    yield _write_last(others)


def _write_last(others: Mapping[str, Any]) -> bytes:
    return b"," + write_json(others)[1:] if others else b"}"


def join_entries(begin: bytes, entries: Entries, end: bytes) -> Parts:
    """Writes entries with commas between them."""
    yield begin
    comma = b""
    for entry in entries:
        between = comma
        for part in entry:
            if part is None:
                yield None
                continue
            yield between + part
            between, comma = b"", b","
    yield end


def write_entry(key: Any, value: Any) -> tuple[bytes]:
    """Writes an entry of a table. In fastjson's form a key may be an object."""
    return (write_json(key) + b":" + write_json(value),)
