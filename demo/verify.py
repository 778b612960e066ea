"""Verifies the result against the file. Each function is a check that names what is wrong.

No check asks the connector: the expected allocation is RocketMQ's, written down here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from demo.checkpoint import MicroBatch

# AllocateMessageQueueAveragely for eight queues and three consumers.
AVERAGELY = ((0, 1, 2), (3, 4, 5), (6, 7))
NAMED_MAX = 3


@dataclass(frozen=True)
class Check:
    """A check and the mismatches that it found; it passed if there are none."""

    name: str
    mismatches: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.mismatches


def every_flight_once(flights: pa.Table, found: pa.Table) -> Check:
    """Compares by the row number that each flight carries."""
    times = np.bincount(found["row"].drop_null().to_numpy(), minlength=flights.num_rows)
    strangers = np.flatnonzero(times[flights.num_rows :]) + flights.num_rows
    times = times[: flights.num_rows]
    mismatches = [
        *_named("missing", np.flatnonzero(times == 0), flights),
        *_named("there more than once", np.flatnonzero(times > 1), flights),
        *_named("not in the file", strangers, None),
    ]
    if found.num_rows != flights.num_rows:
        mismatches.append(f"{found.num_rows:,} rows, expected {flights.num_rows:,}")
    return Check(f"all {flights.num_rows:,} flights are in the result exactly once", mismatches)


def every_offset_once(max_offsets: Mapping[int, int], found: pa.Table) -> Check:
    """Checks each queue from 0 to its max offset, for missing and for repeated offsets."""
    mismatches = []
    for queue_id, max_offset in sorted(max_offsets.items()):
        offsets = _of_queue(found, queue_id)["queueOffset"].to_numpy()
        if not np.array_equal(np.sort(offsets), np.arange(max_offset)):
            missing = np.setdiff1d(np.arange(max_offset), offsets).size
            repeated = offsets.size - np.unique(offsets).size
            beyond = int(np.count_nonzero(offsets >= max_offset))
            mismatches.append(
                f"queue {queue_id}: {missing:,} offsets missing, {repeated:,} repeated, {beyond:,} beyond the end"
            )
    strangers = sorted(set(found["queueId"].unique().to_pylist()).difference(max_offsets))
    mismatches += [f"queue {queue_id} has rows, but the broker has no such queue" for queue_id in strangers]
    return Check(f"every offset of the {len(max_offsets)} queues was read exactly once", mismatches)


def flights_unchanged(flights: pa.Table, found: pa.Table) -> Check:
    """Compares every column of every flight in the result, and its tag and key."""
    known = found.filter(pc.less(found["row"], flights.num_rows))
    expected = flights.take(known["row"])
    expected = expected.append_column("tag", expected["carrier"]).append_column("key", expected["tailnum"])
    mismatches = []
    for name in expected.column_names:
        different = _different(expected[name], known[name])
        if different.size:
            first = int(different[0])
            seen, wanted, row = known[name][first], expected[name][first], known["row"][first]
            mismatches.append(
                f"{name} differs in {different.size:,} rows, first in row {row}: {seen}, expected {wanted}"
            )
    return Check(f"all {flights.num_columns} columns, the tag and the key of each flight equal the file", mismatches)


def carriers_agree(expected: pa.Table, found: pa.Table) -> Check:
    """Compares counts exactly, and means except for the order of floating-point additions."""
    wanted, seen = (_by_carrier(summary) for summary in (expected, found))
    mismatches = [f"carrier {carrier} is not in the result" for carrier in wanted if carrier not in seen]
    mismatches += [f"carrier {carrier} is not in the file" for carrier in seen if carrier not in wanted]
    for carrier in (carrier for carrier in wanted if carrier in seen):
        for name, value in wanted[carrier].items():
            if not _close(value, seen[carrier][name]):
                mismatches.append(f"carrier {carrier}: {name} {seen[carrier][name]}, expected {value}")
    return Check(f"counts and mean delays of {len(wanted)} carriers equal those computed from the file", mismatches)


def group_offsets_at_end(group: str, max_offsets: Mapping[int, int], offsets: Mapping[int, int | None]) -> Check:
    """Checks the consumer offsets, by which people and tools see that everything was read."""
    mismatches = [
        f"queue {queue_id}: consumer offset {offsets.get(queue_id)}, max offset {max_offset}"
        for queue_id, max_offset in sorted(max_offsets.items())
        if offsets.get(queue_id) != max_offset
    ]
    return Check(
        f"the consumer offsets of group {group} equal the max offsets of {len(max_offsets)} queues", mismatches
    )


def partitions_averaged(batches: Sequence[MicroBatch], found: pa.Table) -> Check:
    """Checks that in each micro-batch each Spark partition read the queues of one consumer."""
    mismatches = []
    groups = _queues_read_together(batches, found)
    for index, seen in sorted(groups.items()):
        if index == len(batches):
            mismatches.append(f"queues {_text(seen)} have rows that no micro-batch of the checkpoint covers")
            continue
        with_rows = {queue_id for queues in seen for queue_id in queues}
        expected = [tuple(q for q in queues if q in with_rows) for queues in AVERAGELY]
        if sorted(seen) != sorted(queues for queues in expected if queues):
            mismatches.append(
                f"micro-batch {batches[index].batch_id}: partitions {_text(seen)}, expected {_text(expected)}"
            )
    shape = _text(AVERAGELY)
    return Check(
        f"partitions of {len(groups)} micro-batches equal those of AllocateMessageQueueAveragely: {shape}", mismatches
    )


def killed_batch_replayed(batch_id: int, before: str, after: str) -> Check:
    """Checks that the killed micro-batch was read as it was planned."""
    mismatches = [] if before == after else [f"planned until {before}, read until {after}"]
    return Check(f"micro-batch {batch_id}, killed half-way, was read again from the same offsets", mismatches)


def _named(what: str, rows: np.ndarray, flights: pa.Table | None) -> list[str]:
    if not rows.size:
        return []
    names = [f"row {row}" if flights is None else _flight(flights, int(row)) for row in rows[:NAMED_MAX]]
    more = "; …" if rows.size > NAMED_MAX else ""
    return [f"flights {what}: {rows.size:,} ({'; '.join(names)}{more})"]


def _flight(flights: pa.Table, row: int) -> str:
    (f,) = flights.slice(row, 1).to_pylist()
    return f"{f['carrier']} {f['flight']} {f['origin']}-{f['dest']} on {f['month']}/{f['day']}, row {row}"


def _of_queue(found: pa.Table, queue_id: int) -> pa.Table:
    return found.filter(pc.equal(found["queueId"], queue_id))


def _different(expected: pa.ChunkedArray, seen: pa.ChunkedArray) -> np.ndarray:
    """Returns the rows that differ. Null equals only null."""
    equal = pc.fill_null(pc.equal(expected, seen.cast(expected.type)), False)
    same = pc.or_(equal, pc.and_(pc.is_null(expected), pc.is_null(seen)))
    return np.flatnonzero(~same.to_numpy())


def _by_carrier(summary: pa.Table) -> dict[str, dict[str, float | None]]:
    return {row.pop("carrier"): row for row in summary.to_pylist()}


def _close(wanted: float | None, seen: float | None) -> bool:
    if wanted is None or seen is None:
        return wanted == seen
    return math.isclose(wanted, seen, rel_tol=1e-9)  # exact for whole numbers of this size


def _queues_read_together(batches: Sequence[MicroBatch], found: pa.Table) -> dict[int, list[tuple[int, ...]]]:
    """Returns the queues of each Spark partition, by the index of the micro-batch. Rows behind the last one get the
    next index.
    """
    together: dict[int, dict[int, set[int]]] = {}
    for queue_id in found["queueId"].unique().to_pylist():
        rows = _of_queue(found, queue_id)
        ends = np.array([batch.end.get(queue_id, 0) for batch in batches])
        indexes = np.searchsorted(ends, rows["queueOffset"].to_numpy(), side="right")
        pairs = np.unique(np.stack([indexes, rows["partitionId"].to_numpy()]), axis=1)
        for index, partition_id in pairs.T.tolist():
            together.setdefault(index, {}).setdefault(partition_id, set()).add(queue_id)
    return {index: [tuple(sorted(q)) for q in partitions.values()] for index, partitions in together.items()}


def _text(queues: Iterable[Collection[int]]) -> str:
    return " | ".join(" ".join(map(str, ids)) for ids in sorted(tuple(sorted(q)) for q in queues if q))
