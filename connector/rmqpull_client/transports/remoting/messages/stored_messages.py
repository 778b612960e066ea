"""Finds the stored messages in the bodies of pull responses, thousands at a time (rules 4.7).

A record names its size first, so records are found one after the other. Here all bodies are walked in lockstep: each
step finds the next record of every body, so Python runs as many steps as the longest body has records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rmqpull_client.transports.remoting.messages.byte_ranges import DATA_BYTES_MAX
from rmqpull_client.transports.remoting.messages.inner_batches import INNER, unwrap
from rmqpull_client.transports.remoting.messages.record_numbers import Bytes, Ints, read_numbers
from rmqpull_proto.remoting import record_layout as layout
from rmqpull_proto.remoting.frames import WireError

_FEW_BODIES = 48
"""Up to this many bodies are walked one by one: a step in lockstep costs as much as this many single ones."""
_SIZE = struct.Struct(">I")


class DamagedRecord(NamedTuple):
    """A record that cannot be read. The records of its body before it are usable; those after it were not looked at."""

    body_index: int
    position: int
    """Where it begins in the data that was given."""
    queue_offset: int | None
    """The queue offset in the record, if reading got that far."""
    reason: str


@dataclass(frozen=True, slots=True)
class RecordTable:
    """Stored messages in a buffer, in order of their bodies. Each array has one number per record."""

    data: Bytes
    """The given data, or a copy with inner batches unwrapped if it had any."""
    positions: Ints
    """Where the record begins in ``data``."""
    sizes: Ints
    """The bytes of the record."""
    body_indexes: Ints
    """The index of the body that holds the record."""
    queue_offsets: Ints
    sys_flags: npt.NDArray[np.int32]
    body_starts: Ints
    """Where the body of the message begins in ``data``."""
    body_ends: Ints
    property_starts: Ints
    """Where the properties of the message begin in ``data``."""
    property_ends: Ints
    damaged: tuple[DamagedRecord, ...] = ()

    def __len__(self) -> int:
        return len(self.positions)

    def select(self, rows: slice | npt.NDArray[Any]) -> RecordTable:
        """Returns a table of some records: a slice, a mask, or indexes in ascending order."""
        return replace(self, **{name: getattr(self, name)[rows] for name in _PER_RECORD})


_PER_RECORD = (
    "positions", "sizes", "body_indexes", "queue_offsets", "sys_flags",
    "body_starts", "body_ends", "property_starts", "property_ends",
)  # fmt: skip


def locate_records(
    data: Bytes | bytes | bytearray | memoryview, starts: Ints, ends: Ints, first_offsets: Ints | None = None
) -> RecordTable:
    """Finds all records in ``data[start:end]`` of each start and end.

    The table refers to ``data``, which must not change while the table is in use. Damaged records are reported in the
    table. An inner batch is unwrapped into its messages; those before ``first_offsets``, the queue offset that each
    body was pulled for, are left out. Raises ValueError for bounds outside the data, and for 2 GiB of data or more.
    """
    content: Bytes = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    starts, ends = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    if len(starts) and (starts.min() < 0 or ends.max() > len(content) or (starts > ends).any()):
        raise ValueError(f"A start or an end is outside the {len(content)} bytes of data, or a start after its end.")
    table = _locate(content, starts, ends)
    if ((table.sys_flags & INNER) == INNER).any():
        return _unwrap(table, starts, ends, np.zeros_like(starts) if first_offsets is None else first_offsets)
    return table


def _locate(data: Bytes, starts: Ints, ends: Ints) -> RecordTable:
    if len(data) > DATA_BYTES_MAX:
        raise ValueError(f"{len(data)} bytes are too many to decode at once, expected at most {DATA_BYTES_MAX}.")
    positions, counts, stops = _walk(data, starts, ends)
    table, problems = _check(data, positions, np.repeat(np.arange(len(starts)), counts))
    problems |= {body: each for body, each in _explain_stops(data, stops, ends) if body not in problems}
    return replace(table, damaged=tuple(problems[body] for body in sorted(problems)))


def _unwrap(table: RecordTable, starts: Ints, ends: Ints, first_offsets: Ints) -> RecordTable:
    """Rewrites all bodies with the messages of inner batches as records of their own, and locates these."""
    problems = {each.body_index: each for each in table.damaged}
    bodies = [table.data[start:end].tobytes() for start, end in zip(starts, ends, strict=True)]
    for body in np.unique(table.body_indexes[(table.sys_flags & INNER) == INNER]).tolist():
        rows = table.select(table.body_indexes == body)
        records: list[bytes] = []
        columns = (rows.positions.tolist(), rows.sizes.tolist(), rows.queue_offsets.tolist(), rows.sys_flags.tolist())
        for position, size, offset, flags in zip(*columns, strict=True):
            record = table.data[position : position + size].tobytes()
            if flags & INNER != INNER:
                records.append(record)
                continue
            try:
                records.extend(unwrap(record, int(first_offsets[body])))
            except WireError as error:
                problems[body] = DamagedRecord(body, position, offset, str(error))
                break
        bodies[body] = b"".join(records)
    new_ends = np.cumsum([len(body) for body in bodies])
    new_starts = np.concatenate([np.zeros(1, np.int64), new_ends[:-1]])
    found = _locate(np.frombuffer(b"".join(bodies), np.uint8), new_starts, new_ends)
    return replace(found, damaged=tuple(problems[body] for body in sorted(problems)))


def _walk(data: Bytes, starts: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
    """Returns where records begin, in order of their bodies; how many each body has; and where the walk stopped."""
    position, end, body = starts.copy(), ends, np.arange(len(starts))
    stops = starts.copy()
    steps: list[tuple[Ints, Ints]] = []
    while len(body) > _FEW_BODIES:
        going = position + layout.RECORD_BYTES_MIN <= end
        if not going.all():
            position, end, body = position[going], end[going], body[going]
        sizes = read_numbers(data, position, ">u4").astype(np.int64)
        following = position + sizes
        going = (sizes >= layout.RECORD_BYTES_MIN) & (following <= end)
        if not going.all():
            position, end, body, following = position[going], end[going], body[going], following[going]
        steps.append((position, body))
        stops[body] = following
        position = following
    alone: list[tuple[int, Ints]] = []
    for each, start, its_end in zip(body.tolist(), position.tolist(), end.tolist(), strict=True):
        found, stops[each] = _walk_body(data.data, start, its_end)
        alone.append((each, np.array(found, np.int64)))
    return *_put_in_order(steps, alone, len(starts)), stops


def _walk_body(data: memoryview, position: int, end: int) -> tuple[list[int], int]:
    """Returns where the records of one body begin, and where the walk stopped."""
    found: list[int] = []
    read_size = _SIZE.unpack_from
    while position + layout.RECORD_BYTES_MIN <= end:
        (size,) = read_size(data, position)
        if size < layout.RECORD_BYTES_MIN or position + size > end:
            break
        found.append(position)
        position += size
    return found, position


def _put_in_order(steps: list[tuple[Ints, Ints]], alone: list[tuple[int, Ints]], body_count: int) -> tuple[Ints, Ints]:
    """Returns the found positions in order of their bodies, and how many each body has."""
    counts = np.zeros(body_count, np.int64)
    for _, body in steps:
        counts[body] += 1
    together = counts.copy()
    for each, found in alone:
        counts[each] += len(found)
    first = np.cumsum(counts) - counts
    positions = np.empty(int(counts.sum()), np.int64)
    for step, (position, body) in enumerate(steps):
        positions[first[body] + step] = position
    for each, found in alone:
        start = int(first[each] + together[each])
        positions[start : start + len(found)] = found
    return positions, counts


def _check(data: Bytes, positions: Ints, bodies: Ints) -> tuple[RecordTable, dict[int, DamagedRecord]]:
    """Reads the lengths in each record. Returns the records before the first damaged one of each body."""
    sizes = read_numbers(data, positions, ">u4").astype(np.int64)
    magics = read_numbers(data, positions + layout.MAGIC_AT, ">u4")
    flags = read_numbers(data, positions + layout.SYS_FLAG_AT, ">i4")
    ends = positions + sizes
    heads = count_head_bytes(flags)
    # After a damaged length, reads stay within the record, whose size is known to be right. They return wrong numbers,
    # and the sum at the end does not match.
    body_starts = positions + heads
    body_lengths = read_numbers(data, np.minimum(body_starts, ends) - 4, ">i4").astype(np.int64)
    body_ends = body_starts + body_lengths
    topic_starts = body_ends + 1
    is_right = (body_lengths >= 0) & (topic_starts + 2 <= ends) & (magics == layout.MAGIC)
    topic_lengths = data[np.clip(body_ends, positions, ends - 1)].astype(np.int64)
    is_right &= topic_lengths <= layout.SHORT_TOPIC_BYTES
    if (is_long := magics == layout.LONG_TOPIC_MAGIC).any():
        topic_starts += is_long
        long_lengths = read_numbers(data, np.clip(body_ends, positions, ends - 2), ">u2").astype(np.int64)
        topic_lengths = np.where(is_long, long_lengths, topic_lengths)
        is_right |= is_long & (body_lengths >= 0) & (topic_starts + 2 <= ends)
    property_starts = topic_starts + topic_lengths + 2
    lengths_at = np.clip(property_starts - 2, positions, ends - 2)
    property_ends = property_starts + read_numbers(data, lengths_at, ">i2")
    is_right &= (property_ends == ends) & (property_starts <= ends)
    table = RecordTable(
        data, positions, sizes, bodies, read_numbers(data, positions + layout.QUEUE_OFFSET_AT, ">i8"), flags,
        body_starts, body_ends, property_starts, property_ends,
    )  # fmt: skip
    return (table, {}) if is_right.all() else _cut_damaged(table, magics, np.flatnonzero(~is_right))


def count_head_bytes(sys_flags: npt.NDArray[np.int32]) -> Any:
    """Returns how many bytes each record has before its body; one number if there are no IPv6 hosts."""
    if not (sys_flags & (layout.BORN_HOST_IPV6 | layout.STORE_HOST_IPV6)).any():
        return layout.HEAD_BYTES
    hosts = ((sys_flags & layout.BORN_HOST_IPV6) != 0).astype(np.int64) + ((sys_flags & layout.STORE_HOST_IPV6) != 0)
    return layout.HEAD_BYTES + layout.IPV6_MORE_BYTES * hosts


def _cut_damaged(
    table: RecordTable, magics: npt.NDArray[Any], wrong: npt.NDArray[np.intp]
) -> tuple[RecordTable, dict[int, DamagedRecord]]:
    problems: dict[int, DamagedRecord] = {}
    is_usable = np.ones(len(table), np.bool_)
    for row in wrong.tolist():
        body = int(table.body_indexes[row])
        if body in problems:
            continue
        magic, size = int(magics[row]), int(table.sizes[row])
        is_known = magic in (layout.MAGIC, layout.LONG_TOPIC_MAGIC)
        reason = (
            f"its lengths of body, topic and properties do not add up to its size of {size} bytes"
            if is_known
            else f"its magic is 0x{magic:08X}, expected 0x{layout.MAGIC:08X} or 0x{layout.LONG_TOPIC_MAGIC:08X}"
        )
        offset = int(table.queue_offsets[row]) if is_known else None
        problems[body] = DamagedRecord(body, int(table.positions[row]), offset, reason)
        is_usable[row : np.searchsorted(table.body_indexes, body, "right")] = False
    return table.select(is_usable), problems


def _explain_stops(data: Bytes, stops: Ints, ends: Ints) -> Iterator[tuple[int, DamagedRecord]]:
    """Finds the bodies whose walk stopped before the end."""
    for body in np.flatnonzero(stops != ends).tolist():
        position, rest = int(stops[body]), int(ends[body] - stops[body])
        offset = None
        if rest >= layout.QUEUE_OFFSET_AT + 8:
            magic = int.from_bytes(data[position + layout.MAGIC_AT :][:4].tobytes(), "big")
            if magic in (layout.MAGIC, layout.LONG_TOPIC_MAGIC):
                offset = int.from_bytes(data[position + layout.QUEUE_OFFSET_AT :][:8].tobytes(), "big", signed=True)
        if rest < 4:
            reason = f"the response ends after {rest} bytes of it"
        else:
            size = int.from_bytes(data[position : position + 4].tobytes(), "big")
            reason = (
                f"its size is {size} bytes, expected {layout.RECORD_BYTES_MIN} to {rest}, which the response still has"
            )
        yield body, DamagedRecord(body, position, offset, reason)
