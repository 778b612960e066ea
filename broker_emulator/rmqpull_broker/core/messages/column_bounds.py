"""What the texts of a column have at least and at most, found over its buffers instead of text by text.

Most columns break no rule, and their bounds prove it: a column whose bytes are all from ``!`` to ``~`` has no control
character, and no blank text unless one is empty. Only what bounds cannot exclude is looked for in each row. Bounds may
be wider than the texts, because they include what lies under a null.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.messages.columns import slice_live_values

_OFFSET = struct.Struct("=i")
_SPACE, _DELETE, _ASCII_END = 0x20, 0x7F, 0x80
_find_c1_control = re.compile(rb"\xc2[\x80-\x9f]").search
"""Finds control characters above those of ASCII, in UTF-8, without a look at where a text begins."""


class Range(NamedTuple):
    """The least and the greatest of some numbers. Without numbers, ``greatest`` is the smaller one."""

    least: int
    greatest: int


NONE = Range(1 << 62, 0)
"""The range of no numbers."""


class TextBounds(NamedTuple):
    """How many bytes a text has, the values of these bytes, and all of them."""

    lengths: Range
    bytes: Range
    data: pa.Buffer | None = None

    @property
    def may_be_blank(self) -> bool:
        """Whether one may be empty, or have nothing but white space."""
        return self.lengths.least == 0 or self.bytes.least <= _SPACE or self.bytes.greatest >= _ASCII_END

    @property
    def may_have_control(self) -> bool:
        """Whether one may have a control character, of ``limits.CONTROL_CHARACTERS``."""
        if self.bytes.least < _SPACE or self.data is None or self.bytes.greatest < _DELETE:
            return self.bytes.least < _SPACE
        data = self.data.to_pybytes()  # which is searched ten times as fast as a view of it
        return bytes((_DELETE,)) in data or _find_c1_control(data) is not None

    def may_have(self, character: str) -> bool:
        """Whether one may have this character of ASCII."""
        return self.bytes.least <= ord(character) <= self.bytes.greatest


def find_range(numbers: pa.Array) -> Range:
    """Returns the range of numbers; nulls have no effect."""
    if numbers.null_count == len(numbers):
        return NONE
    found = pc.min_max(numbers)
    return Range(found["min"].as_py(), found["max"].as_py())


def find_lengths(texts: pa.Array) -> Range:
    """Returns the range of the numbers of bytes of texts."""
    return NONE if texts.null_count == len(texts) else find_range(pc.binary_length(texts))


def find_text_bounds(texts: pa.Array) -> TextBounds:
    """Returns the bounds of a column of texts (``pa.string()``)."""
    if texts.null_count == len(texts):
        return TextBounds(NONE, NONE)
    _, offsets, data = texts.buffers()
    first, last = (_read_offset(offsets, row) for row in (texts.offset, texts.offset + len(texts)))
    if first == last:
        return TextBounds(Range(0, 0), NONE)
    used = data.slice(first, last - first)
    numbers = pa.Array.from_buffers(pa.uint8(), last - first, [None, used], 0)
    return TextBounds(find_lengths(texts), find_range(numbers), used)


def find_entry_counts(lists: pa.Array) -> Range:
    """Returns the range of the numbers of entries of lists or maps, without a look at which are null."""
    offsets = lists.offsets
    return find_range(pc.subtract(offsets.slice(1), offsets.slice(0, len(lists))))


def find_names(maps: pa.MapArray) -> pa.Array:
    """Returns the names of the entries of maps, with or without repetitions; none if no map has an entry.

    Mostly all maps have the same names in the same order. Then these are the names of the first map, and found as fast
    as memory is compared.
    """
    names = slice_live_values(maps, maps.keys)
    count = 0 if not len(maps) else maps.offsets[1].as_py() - maps.offsets[0].as_py()
    if not count or len(names) % count or names.null_count:
        return names
    lengths = pc.binary_length(names)
    if not lengths.slice(count).equals(lengths.slice(0, len(names) - count)):
        return names
    size, period = pc.sum(lengths).as_py(), pc.sum(lengths.slice(0, count)).as_py()
    _, offsets, data = names.buffers()
    if size > period:
        begin = _read_offset(offsets, names.offset)
        if not data.slice(begin + period, size - period).equals(data.slice(begin, size - period)):
            return names
    return names.slice(0, count)


def _read_offset(offsets: pa.Buffer, index: int) -> int:
    return int(_OFFSET.unpack_from(offsets, _OFFSET.size * index)[0])
