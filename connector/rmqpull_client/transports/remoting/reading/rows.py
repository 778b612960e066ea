"""Decodes pulled messages into rows, and finds those that are missing.

The responses of a batch are put together in the order of their queues and decoded at once: nothing here runs once per
message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rmqpull_client.light_queues import name_light
from rmqpull_client.loss import Loss, make_range_loss
from rmqpull_client.model import MessageFilter, MessageQueue, QueueRange
from rmqpull_client.transports.message_filters import columns_to_pull, keep_matching_tags
from rmqpull_client.transports.port import QueueRows
from rmqpull_client.transports.remoting.messages.light_offsets import set_light_offsets
from rmqpull_client.transports.remoting.messages.stored_columns import decode_columns
from rmqpull_client.transports.remoting.messages.stored_messages import DamagedRecord, RecordTable, locate_records
from rmqpull_client.transports.remoting.reading.pull_plan import SpanPiece

QUEUE_GONE = "the queue does not exist"
"""The ``loss`` of pieces whose queue does not exist."""


@dataclass
class Damage:
    """A stored message that cannot be read, and what follows it: the rest of its response, and later pieces."""

    loss: Loss
    rest: QueueRange
    later: list[SpanPiece]


@dataclass
class Decoded:
    """The rows of some pieces, by queue. ``gaps`` are offsets without a message between others."""

    rows: list[QueueRows] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    gaps: list[Loss] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)


def decode_pieces(pieces: Sequence[SpanPiece], columns: Sequence[str], message_filter: MessageFilter) -> Decoded:
    """Decodes pieces. Those of a queue must be in order."""
    decoded = Decoded()
    by_queue: defaultdict[MessageQueue, list[SpanPiece]] = defaultdict(list)
    for piece in pieces:
        by_queue[piece.queue].append(piece)
    for found in by_queue.values():
        decoded.losses += _merge_losses([piece for piece in found if piece.content is None])
    bodies = [piece for found in by_queue.values() for piece in found if piece.content is not None]
    if not bodies:
        return decoded
    table = _locate(bodies)
    bounds = _Bounds.of(bodies)
    if table.damaged:
        _set_damages_aside(table, bodies, bounds, decoded)
    table = _select_inside(table, bounds)
    if message_filter.keeps_everything:
        decoded.gaps += _find_gaps(table, bodies, bounds)
    decoded.rows = keep_matching_tags(_decode(table, bodies, columns_to_pull(columns, message_filter)), message_filter)
    return decoded


class _Bounds(NamedTuple):
    """The wanted offsets of each body."""

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, bodies: Sequence[SpanPiece]) -> _Bounds:
        """Returns the offsets of pieces."""
        starts = np.array([piece.from_offset for piece in bodies], np.int64)
        return cls(starts, np.array([piece.until_offset for piece in bodies], np.int64))


def _merge_losses(pieces: Sequence[SpanPiece]) -> list[Loss]:
    """Returns the losses of a queue, with adjacent ones merged."""
    losses: list[Loss] = []
    first: SpanPiece | None = None
    for piece in pieces:
        if first is None or losses[-1].until_offset != piece.from_offset:
            first = piece
        else:
            losses.pop()
        queue, from_offset, until_offset = piece.queue, first.from_offset, piece.until_offset
        if first.loss == QUEUE_GONE:
            losses.append(make_range_loss(QueueRange(queue, from_offset, until_offset)))
            continue
        count = until_offset - from_offset
        text = f"{count} messages of queue {queue} in [{from_offset}, {until_offset}) are lost: {first.loss}."
        losses.append(Loss(queue, from_offset, until_offset, text))
    return losses


def _locate(bodies: Sequence[SpanPiece]) -> RecordTable:
    """Puts the bodies of responses together and finds their records."""
    parts = [buffer[start:end] for buffer, start, end in (piece.content for piece in bodies)]
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    starts = np.zeros(len(parts), np.int64)
    starts[1:] = ends[:-1]
    table = locate_records(b"".join(parts), starts, ends)
    return set_light_offsets(table, [name_light(piece.queue.topic) for piece in bodies])


def _select_inside(table: RecordTable, bounds: _Bounds) -> RecordTable:
    """Returns the wanted records. Responses may overlap."""
    offsets, body = table.queue_offsets, table.body_indexes
    is_inside = (offsets >= bounds.starts[body]) & (offsets < bounds.ends[body])
    return table if is_inside.all() else table.select(is_inside)


def _find_gaps(table: RecordTable, bodies: Sequence[SpanPiece], bounds: _Bounds) -> list[Loss]:
    """Returns the offsets within the bounds that have no record."""
    body, offsets = table.body_indexes, table.queue_offsets
    counts = np.bincount(body, minlength=len(bodies))
    first_rows = np.cumsum(counts) - counts
    is_right = counts == bounds.ends - bounds.starts
    is_next = offsets == bounds.starts[body] + (np.arange(len(body)) - first_rows[body])
    if is_right.all() and is_next.all():
        return []
    is_right[body[~is_next]] = False
    losses: list[Loss] = []
    for index in np.flatnonzero(~is_right).tolist():
        wanted = np.arange(bounds.starts[index], bounds.ends[index])
        missing = np.setdiff1d(wanted, offsets[body == index])
        runs = np.split(missing, np.flatnonzero(np.diff(missing) > 1) + 1)
        losses += [_make_gap(bodies[index].queue, int(run[0]), int(run[-1]) + 1) for run in runs if len(run)]
    return losses


def _make_gap(queue: MessageQueue, from_offset: int, until_offset: int) -> Loss:
    text = (
        f"{until_offset - from_offset} messages of queue {queue} in [{from_offset}, {until_offset}) are lost: their "
        "response has messages before or after them only."
    )
    return Loss(queue, from_offset, until_offset, text)


def _set_damages_aside(table: RecordTable, bodies: Sequence[SpanPiece], bounds: _Bounds, decoded: Decoded) -> None:
    """Ends each queue before its first damaged record: what follows must be pulled or decoded again."""
    done: set[MessageQueue] = set()
    for damaged in table.damaged:
        index = damaged.body_index
        piece = bodies[index]
        if piece.queue in done:
            continue
        offset = _find_damaged_offset(table, piece, damaged)
        if offset >= piece.until_offset:
            continue  # another response has this record too
        done.add(piece.queue)
        text = f"The message at offset {offset} of queue {piece.queue} is damaged: {damaged.reason}."
        later = [other for other in bodies[index + 1 :] if other.queue == piece.queue]
        rest = QueueRange(piece.queue, offset + 1, piece.until_offset)
        decoded.damages.append(Damage(Loss(piece.queue, offset, offset + 1, text), rest, later))
        bounds.ends[index] = offset
        bounds.ends[index + 1 : index + 1 + len(later)] = bounds.starts[index + 1 : index + 1 + len(later)]


def _find_damaged_offset(table: RecordTable, piece: SpanPiece, damaged: DamagedRecord) -> int:
    """Returns the queue offset of a damaged record: its own, if plausible, or the one after the last good record."""
    before = table.queue_offsets[table.body_indexes == damaged.body_index]
    following = max(int(before[-1]) + 1 if len(before) else 0, piece.from_offset)
    named = damaged.queue_offset
    return named if named is not None and following <= named < piece.until_offset else following


def _decode(table: RecordTable, bodies: Sequence[SpanPiece], columns: Sequence[str]) -> list[QueueRows]:
    """Returns the rows of each queue."""
    if not len(table):
        return []
    batch = decode_columns(table, columns)
    counts = np.bincount(table.body_indexes, minlength=len(bodies)).tolist()
    rows: list[QueueRows] = []
    first_row = row_count = 0
    for index, piece in enumerate(bodies):
        row_count += counts[index]
        if index + 1 == len(bodies) or bodies[index + 1].queue != piece.queue:
            if row_count:
                rows.append(QueueRows(piece.queue, [batch.slice(first_row, row_count)]))
            first_row += row_count
            row_count = 0
    return rows
