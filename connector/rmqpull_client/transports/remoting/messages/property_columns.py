"""The properties of many messages, split into Arrow columns (rules 4.8).

Most messages of a queue have the same properties in the same order. Then each property is a column of positions in the
text, and its name is compared instead of looked up. Other messages are split entry by entry.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_client.transports.remoting.messages.byte_ranges import (
    POOL,
    as_text,
    gather,
    get_bytes,
    get_offsets,
    place_texts,
)
from rmqpull_client.transports.remoting.messages.record_numbers import Bytes, Ints, Mask, read_fixed
from rmqpull_proto.columns import PROPERTIES
from rmqpull_proto.remoting import properties as names

_NAME_END = ord(names.NAME_END)
_VALUE_END = ord(names.VALUE_END)
_BOTH_ENDS = _NAME_END | _VALUE_END << 8
_BITS = 62

WITH_COLUMN = frozenset((names.TAGS, names.KEYS, names.UNIQ_KEY, names.SHARDING_KEY, names.TIMER_DELIVER_MS))
"""RocketMQ's own properties that are not in ``systemProperties``, because they have a column of their own."""
_SYSTEM = names.OWN - WITH_COLUMN


class Entries(NamedTuple):
    """Properties as ranges of the text. ``rows`` has the message of each; None: every message has the same number."""

    name_starts: Ints
    name_ends: Ints
    value_ends: Ints
    rows: Ints | None


class PropertyTable:
    """The properties of some messages."""

    def __init__(self, data: Bytes, starts: Ints, ends: Ints) -> None:
        self._row_count = len(starts)
        self._text, row_ends = _end_all_values(_repair_utf8(gather(data, starts, ends)))
        self._layout = _split(self._text, row_ends)

    def make_texts(self, name: str) -> pa.Array:
        """Returns the values of one property; null where a message lacks it."""
        found = self._layout.find(name)
        values = gather(self._text, found.name_ends + 1, found.value_ends)
        return place_texts(values, found.rows, self._row_count)

    def make_user_maps(self) -> pa.Array:
        """Returns the user's properties of each message as a map."""
        return self._make_maps(*self._layout.find_user_entries())

    def make_system_maps(self) -> pa.Array:
        """Returns RocketMQ's own properties of each message, without those that have a column, as a map."""
        return self._make_maps(*self._layout.find_system_entries())

    def _make_maps(self, found: Entries, offsets: npt.NDArray[np.int32]) -> pa.Array:
        keys = as_text(gather(self._text, found.name_starts, found.name_ends))
        values = as_text(gather(self._text, found.name_ends + 1, found.value_ends))
        fields = pa.struct([PROPERTIES.key_field, PROPERTIES.item_field])
        entries = pa.Array.from_buffers(fields, len(keys), [None], children=[keys, values])
        return pa.Array.from_buffers(
            PROPERTIES, self._row_count, [None, pa.py_buffer(offsets)], null_count=0, children=[entries]
        )


class _Alike:
    """Messages that have the same properties in the same order: arrays with a row per message.

    If a name occurs twice, the last one counts. Brokers append the properties of a batch to those of each of its
    messages, so messages from batches have two ids.
    """

    def __init__(self, property_names: Sequence[str], starts: Ints, name_ends: Ints, value_ends: Ints) -> None:
        self._places = {name: place for place, name in enumerate(property_names)}
        self._starts, self._name_ends, self._value_ends = starts, name_ends, value_ends

    def find(self, name: str) -> Entries:
        if name not in self._places:
            nothing = np.zeros(0, np.int64)
            return Entries(nothing, nothing, nothing, nothing)
        return self._take([self._places[name]])

    def find_user_entries(self) -> tuple[Entries, npt.NDArray[np.int32]]:
        return self._find_maps(sorted(place for name, place in self._places.items() if name not in names.OWN))

    def find_system_entries(self) -> tuple[Entries, npt.NDArray[np.int32]]:
        return self._find_maps(sorted(place for name, place in self._places.items() if name in _SYSTEM))

    def _find_maps(self, places: list[int]) -> tuple[Entries, npt.NDArray[np.int32]]:
        return self._take(places), np.arange(len(self._starts) + 1, dtype=np.int32) * len(places)

    def _take(self, places: list[int]) -> Entries:
        wanted = slice(places[0], places[0] + 1) if len(places) == 1 else places
        starts, name_ends, value_ends = (
            part[:, wanted].ravel() for part in (self._starts, self._name_ends, self._value_ends)
        )
        return Entries(starts, name_ends, value_ends, None)


class _Mixed:
    """Messages whose properties differ: arrays with one number per entry, in the order of the text."""

    def __init__(self, row_count: int, text: Bytes, entries: Entries) -> None:
        self._row_count = row_count
        encoded = pc.dictionary_encode(gather(text, entries.name_starts, entries.name_ends), memory_pool=POOL)
        codes = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(encoded)) if len(encoded) else _NO_CODES
        assert entries.rows is not None
        kept = _find_last_of_equal(entries.rows, codes, len(encoded.dictionary))
        self._entries = entries if kept is None else Entries(*(part[kept] for part in entries))  # type: ignore[index]
        self._codes = codes if kept is None else codes[kept]
        self._names = as_text(encoded.dictionary)

    def find(self, name: str) -> Entries:
        code = pc.index(self._names, pa.scalar(name)).as_py()
        return self._take(np.flatnonzero(self._codes == code))

    def find_user_entries(self) -> tuple[Entries, npt.NDArray[np.int32]]:
        return self._find_maps(~self._is_one_of(_list_names(names.OWN)))

    def find_system_entries(self) -> tuple[Entries, npt.NDArray[np.int32]]:
        return self._find_maps(self._is_one_of(_list_names(_SYSTEM)))

    def _is_one_of(self, wanted: pa.Array) -> Mask:
        found: Mask = pc.is_in(self._names, wanted).to_numpy(zero_copy_only=False)
        return found

    def _find_maps(self, is_wanted: Mask) -> tuple[Entries, npt.NDArray[np.int32]]:
        found = self._take(np.flatnonzero(is_wanted[self._codes]))
        offsets = np.zeros(self._row_count + 1, np.int32)
        np.cumsum(np.bincount(found.rows, minlength=self._row_count), out=offsets[1:])  # type: ignore[arg-type]
        return found, offsets

    def _take(self, wanted: npt.NDArray[np.intp]) -> Entries:
        return Entries(*(part[wanted] for part in self._entries))  # type: ignore[index]


_NO_CODES = np.zeros(0, np.int32)


@cache
def _list_names(some: frozenset[str]) -> pa.Array:
    # Not made when the module is imported: for its first array of Python values, Arrow imports pandas, which takes
    # longer than anything else at the start of a query.
    return pa.array(sorted(some), pa.string())


def _end_all_values(texts: pa.Array) -> tuple[Bytes, Ints]:
    """Adds the terminator of each message's last value where it is missing. Returns all texts and where each ends."""
    text, ends = get_bytes(texts), get_offsets(texts)[1:].astype(np.int64)
    starts = get_offsets(texts)[:-1]
    if not len(text):
        return text, ends
    is_missing = (ends > starts) & (text[ends - 1] != _VALUE_END)
    if not is_missing.any():
        return text, ends
    if is_missing.all():  # as clients of version 4 write them
        ended = pc.binary_join_element_wise(texts, bytes([_VALUE_END]), b"", memory_pool=POOL)
        return get_bytes(ended), get_offsets(ended)[1:].astype(np.int64)
    return np.insert(text, ends[is_missing], _VALUE_END), ends + np.cumsum(is_missing)


def _split(text: Bytes, row_ends: Ints) -> _Alike | _Mixed:
    """Finds the entries of all messages: name, byte 1, value, byte 2. Each message ends with byte 2 or is empty."""
    parts = starts, name_ends, value_ends = _find_entries(text)
    count = len(row_ends)
    per_row = len(starts) // max(count, 1)
    if per_row and per_row * count == len(starts) and (value_ends[per_row - 1 :: per_row] == row_ends - 1).all():
        by_row = [part.reshape(count, per_row) for part in parts]
        if (found := _read_same_names(text, *by_row)) is not None:
            return _Alike(found, *by_row)
    bounds = np.searchsorted(starts, row_ends)
    rows = np.repeat(np.arange(count), np.diff(bounds, prepend=0))
    return _Mixed(count, text, Entries(starts, name_ends, value_ends, rows))


def _find_entries(text: Bytes) -> tuple[Ints, Ints, Ints]:
    """Returns where names start, names end and values end. Drops entries without a name, a value or byte 1."""
    marks = np.flatnonzero(text <= max(_NAME_END, _VALUE_END))
    kinds = text[marks]
    if not len(marks) % 2 and (kinds.view("<u2") == _BOTH_ENDS).all():
        name_ends, value_ends = marks[0::2], marks[1::2]
        starts = _start_behind(value_ends)
    else:
        value_ends = marks[kinds == _VALUE_END]
        starts = _start_behind(value_ends)
        middles = np.append(marks[kinds == _NAME_END], len(text))
        name_ends = middles[np.searchsorted(middles, starts)]
    is_entry = (name_ends > starts) & (name_ends < value_ends - 1)
    if is_entry.all():
        return starts, name_ends, value_ends
    return starts[is_entry], name_ends[is_entry], value_ends[is_entry]


def _start_behind(value_ends: Ints) -> Ints:
    """Returns the starts of the entries that have these ends."""
    starts = np.zeros(len(value_ends), np.int64)
    starts[1:] = value_ends[:-1] + 1
    return starts


def _read_same_names(text: Bytes, starts: Ints, name_ends: Ints, value_ends: Ints) -> list[str] | None:
    """Returns the names of the properties if all messages have the same ones in the same order."""
    found: list[str] = []
    for place in range(starts.shape[1]):
        lengths = name_ends[:, place] - starts[:, place]
        length = int(lengths[0])
        if not (lengths == length).all() or not _are_same(text, starts[:, place], length):
            return None
        found.append(text[starts[0, place] : name_ends[0, place]].tobytes().decode())
    return found


def _are_same(text: Bytes, starts: Ints, length: int) -> bool:
    """Whether the same ``length`` bytes are at all these positions. Compares words, which may overlap."""
    width = max(size for size in (1, 2, 4, 8) if size <= length)
    for at in {*range(0, length - width + 1, width), length - width}:
        words = read_fixed(text, starts + at, width).view(f"u{width}")
        if not (words == words[0]).all():
            return False
    return True


def _find_last_of_equal(rows: Ints, codes: npt.NDArray[np.int32], code_count: int) -> npt.NDArray[np.intp] | None:
    """Returns the last entry of each name in each message. None: no message repeats a name."""
    if not len(rows):
        return None
    if code_count <= _BITS:
        # The sum of powers of two equals their bitwise OR only if each occurs once.
        bits = np.int64(1) << codes.astype(np.int64)
        firsts = np.flatnonzero(np.diff(rows, prepend=-1))
        if bool((np.add.reduceat(bits, firsts) == np.bitwise_or.reduceat(bits, firsts)).all()):
            return None
    _, from_behind = np.unique((rows * code_count + codes)[::-1], return_index=True)
    if len(from_behind) == len(rows):
        return None
    return np.sort(len(rows) - 1 - from_behind)


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """Replaces malformed bytes as Java does: a surrogate in three bytes becomes one character."""
    assert isinstance(error, UnicodeDecodeError)
    seen = error.object[error.start : error.start + 3]
    is_surrogate = len(seen) == 3 and seen[0] == 0xED and seen[1] & 0xE0 == 0xA0 and seen[2] & 0xC0 == 0x80
    return "\ufffd", error.start + 3 if is_surrogate else error.end


codecs.register_error("rmqpull-java", _replace_as_java)


def _repair_utf8(values: pa.Array) -> pa.Array:
    """Returns the texts with U+FFFD for malformed bytes, like Java's decoder. Nearly always there are none."""
    try:
        values.cast(pa.string(), memory_pool=POOL)
    except pa.ArrowInvalid:
        texts = [value.decode("utf-8", "rmqpull-java").encode() for value in values.to_pylist()]
        return pa.array(texts, pa.binary())
    return values
