"""The offsets of stored messages in light message queues (LMQ), thousands at a time (rules 3.18).

A broker stores a message once, and its record has its offset in the queue of the topic that it was sent to. Two
properties of the message list the light message queues that it is also in, and its offset in each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_client.transports.remoting.messages.property_columns import PropertyTable
from rmqpull_client.transports.remoting.messages.record_numbers import Ints
from rmqpull_client.transports.remoting.messages.stored_messages import DamagedRecord, RecordTable
from rmqpull_proto.remoting import properties as names

_SEPARATOR = ","
_OFFSET = r"^[0-9]{1,18}$"
_NOT_TOLD = -1


def set_light_offsets(table: RecordTable, queues: Sequence[str | None]) -> RecordTable:
    """Returns the table with the offsets that messages have in the light message queues that they were pulled from.

    ``queues`` has the name of one for each located body, or None for a body from another queue, whose offsets stay. A
    record without such an offset counts as damaged: it and those after it in its body are left out.
    """
    if all(queue is None for queue in queues):
        return table
    is_light = np.array([queue is not None for queue in queues])
    rows = np.flatnonzero(is_light[table.body_indexes])
    offsets = table.queue_offsets.copy()
    if len(rows):
        offsets[rows] = _read_offsets(table.select(rows), queues)
    untold = np.flatnonzero(offsets == _NOT_TOLD)
    # The queue offset in a damaged record is not its offset in the light message queue.
    damaged = {
        each.body_index: each._replace(queue_offset=None) if is_light[each.body_index] else each
        for each in table.damaged
    }
    is_kept = np.ones(len(table), bool)
    for row in untold[np.unique(table.body_indexes[untold], return_index=True)[1]].tolist():
        body = int(table.body_indexes[row])
        reason = f"it does not name its offset in {queues[body]}"
        damaged[body] = DamagedRecord(body, int(table.positions[row]), None, reason)
        is_kept[row:] &= table.body_indexes[row:] != body
    found = replace(table, queue_offsets=offsets, damaged=tuple(damaged[body] for body in sorted(damaged)))
    return found if is_kept.all() else found.select(is_kept)


def _read_offsets(table: RecordTable, queues: Sequence[str | None]) -> Ints:
    """Returns the offset of each message in the queue of its body, or -1 if its properties have none."""
    properties = PropertyTable(table.data, table.property_starts, table.property_ends)
    names_of = _split(properties.make_texts(names.INNER_MULTI_DISPATCH))
    offsets_of = _split(properties.make_texts(names.INNER_MULTI_QUEUE_OFFSET))
    counts, offset_counts = (
        pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False) for lists in (names_of, offsets_of)
    )
    found = np.full(len(table), _NOT_TOLD, np.int64)
    is_paired = counts == offset_counts
    if not is_paired.all():
        mask = pa.array(is_paired)
        names_of, offsets_of, counts = names_of.filter(mask), offsets_of.filter(mask), counts[is_paired]
    rows = np.repeat(np.flatnonzero(is_paired), counts)
    wanted = pa.array(queues, pa.string()).take(pa.array(table.body_indexes[rows]))
    texts = offsets_of.flatten()
    is_told = pc.and_(pc.equal(names_of.flatten(), wanted), pc.match_substring_regex(texts, _OFFSET))
    told = np.flatnonzero(pc.fill_null(is_told, False).to_numpy(zero_copy_only=False))
    # If a queue is named twice, its first offset counts, as in Java's clients.
    told = told[np.unique(rows[told], return_index=True)[1]]
    found[rows[told]] = texts.take(pa.array(told)).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found


def _split(texts: pa.Array) -> pa.Array:
    return pc.split_pattern(texts, _SEPARATOR)
