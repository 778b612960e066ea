"""Compares the output of a round with the acknowledged messages, and describes each difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from soak.ledger import Attempt
from soak.output import Row

Queue = tuple[str, str, int]
Wants = Callable[[str, int], bool]

SHOWN_MAX = 5
"""How many differences of each kind are described individually."""


def judge(
    attempts: Mapping[str, Attempt],
    wants: Wants,
    rows: Sequence[Row],
    ends: Mapping[Queue, int],
    offsets: Mapping[Queue, int],
) -> list[str]:
    """Returns every difference. There is none if each acknowledged message is in the output exactly once and in order,
    and the group is at the end of every queue.
    """
    return [
        *_told("acknowledged and not in the output", missing(attempts, wants, rows)),
        *_told("in the output more than once", repeated(attempts, rows)),
        *_told("several rows of one offset", repeated_offsets(rows)),
        *_told("not as it was sent", altered(attempts, wants, rows)),
        *_told("out of order", disordered(rows)),
        *_told("passed over", [] if _is_filtered(attempts, wants) else gaps(rows, ends)),
        *_told("group not at the end", behind(ends, offsets)),
    ]


def missing(attempts: Mapping[str, Attempt], wants: Wants, rows: Iterable[Row]) -> Iterator[str]:
    """Yields acknowledged messages without a row."""
    seen = {row.key for row in rows}
    for attempt in attempts.values():
        if attempt.acknowledged and wants(attempt.tag, attempt.price) and attempt.key not in seen:
            yield f"{attempt.key} at {attempt.known_offsets}, sent in step {attempt.step}"


def repeated(attempts: Mapping[str, Attempt], rows: Iterable[Row]) -> Iterator[str]:
    """Yields messages with several rows, acknowledged or not."""
    by_key: dict[str, list[Row]] = {}
    for row in rows:
        by_key.setdefault(row.key, []).append(row)
    for key, found in by_key.items():
        if len(found) > 1:
            step = attempts[key].step if key in attempts else "?"
            yield f"{key}, sent in step {step}: " + " and ".join(
                f"{_position(row)} by batch {row.batch_id}" for row in found
            )


def repeated_offsets(rows: Iterable[Row]) -> Iterator[str]:
    """Yields queue offsets with several rows."""
    counts = Counter((row.queue, row.offset) for row in rows)
    for ((topic, broker_name, queue_id), offset), count in counts.items():
        if count > 1:
            yield f"{topic}/{broker_name}/{queue_id} offset {offset}: {count} rows"


def altered(attempts: Mapping[str, Attempt], wants: Wants, rows: Iterable[Row]) -> Iterator[str]:
    """Yields rows that nobody sent, that the filter should have removed, or that differ from what was sent."""
    for row in rows:
        attempt = attempts.get(row.key)
        if attempt is None:
            yield f"{_position(row)} has the key {row.key!r}, which nobody sent"
            continue
        if not wants(attempt.tag, attempt.price):
            yield f"{_position(row)} has {row.key}, which the filter does not match"
        sent = (attempt.topic, attempt.msg_id if attempt.keeps_id else row.msg_id, attempt.tag, attempt.digest)
        if sent != (row.topic, row.msg_id, row.tag, row.digest):
            yield f"{_position(row)} has {row}, sent was {attempt}"
        if not attempt.may_be_at(row.broker_name, row.queue_id, row.offset):
            yield f"{_position(row)} has {row.key}, which the broker acknowledged at {attempt.known_offsets}"


def disordered(rows: Iterable[Row]) -> Iterator[str]:
    """Yields rows of a queue whose offsets fall within a file, and batches that start before the end of an earlier
    one.
    """
    last_in_file: dict[tuple[str, Queue], int] = {}
    last_before: dict[Queue, int] = {}
    last_of_batch: dict[Queue, tuple[int, int]] = {}
    for row in rows:
        if row.offset < last_in_file.get((row.file, row.queue), -1):
            yield f"{_position(row)} in {row.file} behind offset {last_in_file[row.file, row.queue]}"
        last_in_file[row.file, row.queue] = row.offset
        batch_id, last = last_of_batch.get(row.queue, (row.batch_id, -1))
        if batch_id != row.batch_id:
            last_before[row.queue], last = last, -1
        last_of_batch[row.queue] = (row.batch_id, max(last, row.offset))
        if row.offset <= last_before.get(row.queue, -1):
            yield f"{_position(row)} by batch {row.batch_id}, behind offset {last_before[row.queue]} of an earlier one"


def gaps(rows: Iterable[Row], ends: Mapping[Queue, int]) -> Iterator[str]:
    """Yields queues with missing offsets. Without a filter, each offset below the max offset has a row, acknowledged or
    not.
    """
    offsets: dict[Queue, set[int]] = {queue: set() for queue in ends}
    for row in rows:
        offsets.setdefault(row.queue, set()).add(row.offset)
    for (topic, broker_name, queue_id), found in offsets.items():
        end = ends.get((topic, broker_name, queue_id), 0)
        if absent := sorted(set(range(end)) - found):
            yield f"{topic}/{broker_name}/{queue_id}: {len(absent)} offsets of {end}, the first {absent[:3]}"
        if beyond := sorted(found - set(range(end))):
            yield f"{topic}/{broker_name}/{queue_id}: {len(beyond)} offsets beyond {end}, the first {beyond[:3]}"


def behind(ends: Mapping[Queue, int], offsets: Mapping[Queue, int]) -> Iterator[str]:
    """Yields queues whose consumer offset is not the max offset."""
    for (topic, broker_name, queue_id), end in sorted(ends.items()):
        if (offset := offsets.get((topic, broker_name, queue_id))) != end:
            yield f"{topic}/{broker_name}/{queue_id}: consumer offset {offset}, end {end}"


def ahead(finished: Mapping[Queue, int], offsets: Mapping[Queue, int]) -> list[str]:
    """Returns the queues whose consumer offset is beyond the last batch that Spark has finished."""
    return _told(
        "group ahead of what Spark has finished",
        (
            f"{topic}/{broker_name}/{queue_id}: consumer offset {offset}, finished {end}"
            for (topic, broker_name, queue_id), offset in sorted(offsets.items())
            if offset > (end := finished.get((topic, broker_name, queue_id), 0))
        ),
    )


def _is_filtered(attempts: Mapping[str, Attempt], wants: Wants) -> bool:
    return not all(wants(attempt.tag, attempt.price) for attempt in attempts.values())


def _told(what: str, differences: Iterable[str]) -> list[str]:
    found: Collection[str] = list(differences)
    told = [f"{what}: {difference}" for difference in list(found)[:SHOWN_MAX]]
    return told + [f"{what}: {len(found) - SHOWN_MAX} more"] * (len(found) > SHOWN_MAX)


def _position(row: Row) -> str:
    return f"{row.topic}/{row.broker_name}/{row.queue_id} offset {row.offset}"
