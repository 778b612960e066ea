"""Pages of the lists of all topics and all groups, which clients since 5.5 request (rules 6.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from rmqpull_broker.core.errors import RequestFailed
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.json_dialect import read_json

PAGE_ENTRIES_MAX = 2_000
"""Entries of one page, Apache's default of ``splitMetadataSize``."""


class Page(NamedTuple):
    """The names of a page, and the version of the whole list, which the request for the next page repeats."""

    names: Sequence[str]
    version: dict[str, int]


def cut_page(
    names: Iterable[str], sequence: int | None, version_text: str | None, entries_max: int | None
) -> Page | None:
    """Returns the page that begins with the name of number ``sequence``, in the order of names.

    ``version_text`` is the version from the previous page, as JSON. If names were added or removed since, the first
    page is returned again. Returns None for a request without all three: older clients want the whole list at once.
    Raises RequestFailed where Apache's broker throws.
    """
    if sequence is None and version_text is None and entries_max is None:
        return None
    if sequence is None or (entries_max is not None and entries_max < 1):
        raise RequestFailed("a page needs the number of its first entry, and one entry or more")
    ordered = sorted(names)
    version = {"counter": crc32("\n".join(ordered).encode()), "stateVersion": 0, "timestamp": 0}
    begin = sequence if sequence and _read_version(version_text) == version else 0
    if begin < 0:
        raise RequestFailed(f"a page cannot begin with entry {begin}")
    count = PAGE_ENTRIES_MAX if entries_max is None else min(entries_max, PAGE_ENTRIES_MAX)
    return Page(ordered[begin : begin + count], version)


def _read_version(text: str | None) -> Any:
    try:
        return read_json((text or "").encode())
    except WireError:
        return None
