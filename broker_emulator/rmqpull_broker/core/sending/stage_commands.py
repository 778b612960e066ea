"""Commands on stages: messages are handed over, committed all together, and stored; or dropped.

    =======================  =====================================================================================
    command                  what it changes
    =======================  =====================================================================================
    stage                    rows are kept in the stage's hidden queue, meant for queues that they have already
    commit                   from now on the rows are going to be stored, whatever happens
    store_next               one call's rows get offsets and store time, and stand in their own queues
    drop                     the rows are gone
    =======================  =====================================================================================

A commit may be larger than memory: its rows are stored call by call, each in one group of facts with the word that it
is done, so each is stored once. What is committed stands in the log before the first of them can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import pyarrow as pa

from rmqpull_broker.core.errors import BadRequest, PreconditionFailed, TooManyRequests
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.sending import commits
from rmqpull_broker.core.sending.commits import Outcome
from rmqpull_broker.core.sending.sender import Published, Sender
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import (
    CallStaged,
    ColumnsStored,
    CommitRecord,
    QueuePart,
    StagedCallStored,
    StagesCommitted,
    StagesEnded,
    TransactionId,
)
from rmqpull_broker.core.state.names import STAGE_PREFIX
from rmqpull_broker.core.state.stages import CALL_BYTES, Stage, StagedCall

STAGES_MAX = 10_000
"""Stages that may be open at one time."""
STAGE_ROWS_MAX = 100_000_000
STAGE_BYTES_MAX = 40 << 30
"""Rows of one stage, and the bytes of their bodies, tags, keys and user properties: what one task may write."""
STATE_BYTES_MAX = 128 << 20
"""About how much memory the broker's notes on all stages may take; their rows are on disk."""
ID_LENGTH_MAX = 255


def stage(
    draft: Draft,
    sender: Sender,
    batch: TransactionId,
    stage_id: str,
    sequence: int,
    published: Published,
    now_ms: int,
    timeout_ms: int = 0,
) -> bool:
    """Adds a call to a stage, which is made when it is new; a call that was taken in already changes nothing.

    False when the batch was committed before: then nothing needs to be staged, and the commit tells whether it is the
    same. Raises BadRequest for ids and numbers that cannot be, InvalidTransactionId for a batch that is older than the
    newest committed one, PreconditionFailed for a stage that is committed or another batch's, TooManyRequests above
    the limits, and what ``Sender.place`` raises.
    """
    _check_batch(batch)
    _check_id("stage", stage_id)
    if sequence < 0:
        raise BadRequest(f"sequence {sequence} of stage {stage_id} is negative")
    commits.refuse_older(batch, draft.find_newest_commit(batch.writer))
    if draft.has_committed(batch):
        return False
    found = draft.find_stage(stage_id)
    if found is None and len(draft.list_stages()) >= STAGES_MAX:
        raise TooManyRequests(
            f"stage {stage_id} of transaction {batch.writer} cannot be opened: {STAGES_MAX} stages are open already, "
            "the max. Commit or drop other transactions first, or write with fewer tasks at a time"
        )
    if found is not None and (found.is_committed or found.transaction != batch):
        raise PreconditionFailed(f"stage {stage_id} is of another batch or committed")
    if found is not None and found.has(sequence):
        return True
    placed = sender.place(draft, published, now_ms)
    byte_count = columns.count_bytes(placed.batch)
    _check_room(draft, batch, stage_id, placed.batch.num_rows, byte_count)
    queue = _queue_of(draft, stage_id)
    first_offset = draft.next_offset(queue)
    offsets = columns.make_offset_column(first_offset, placed.batch.num_rows)
    rows = placed.batch.set_column(0, columns.STORED_SCHEMA.field(0), offsets)
    draft.add(ColumnsStored((QueuePart(queue, first_offset, rows.num_rows),), rows))
    draft.add(CallStaged(batch, stage_id, sequence, first_offset, tuple(placed.queues), timeout_ms, byte_count))
    return True


def _check_room(draft: Draft, batch: TransactionId, stage_id: str, row_count: int, byte_count: int) -> None:
    """Raises TooManyRequests unless a stage may take these rows."""
    found = draft.find_stage(stage_id) or Stage(batch)
    for what, staged, added, limit in (
        ("rows", found.row_count, row_count, STAGE_ROWS_MAX),
        ("bytes", found.byte_count, byte_count, STAGE_BYTES_MAX),
    ):
        if staged + added > limit:
            raise TooManyRequests(
                f"stage {stage_id} of transaction {batch.writer} has {staged:,} {what}, and {added:,} more would "
                f"exceed the max of {limit:,} for one stage. A stage is what one task writes: write with more tasks, "
                "so that each has fewer rows (in Spark, repartition the rows before the write)"
            )
    staged = draft.state.stages.state_bytes
    if staged + CALL_BYTES > STATE_BYTES_MAX:
        raise TooManyRequests(
            f"stage {stage_id} of transaction {batch.writer} takes no more: the broker's notes on all stages, about "
            f"{CALL_BYTES} bytes for each call, take {staged:,} bytes of memory, and may take {STATE_BYTES_MAX:,}. "
            "Commit or drop other transactions first, or send more rows in each call (in Spark, raise batchBytes)"
        )


class CommittedStage(NamedTuple):
    """A stage as the commit names it, with the number of calls that it must have."""

    stage_id: str
    call_count: int


def commit(
    draft: Draft, batch: TransactionId, named: Sequence[CommittedStage], record: CommitRecord | None = None
) -> Outcome:
    """Commits a batch with exactly these stages and drops its other ones, unless it was committed before.

    Raises BadRequest for ids that cannot be, InvalidTransactionId when another batch was committed under this number
    (see ``commits``), PreconditionFailed when a stage is not there, not whole, or its topic is gone: then nothing has
    changed.
    """
    _check_batch(batch)
    if len({stage_id for stage_id, _ in named}) < len(named):
        raise BadRequest("a stage is named twice")
    if record is not None:
        commits.check(record)
    outcome = _outcome(draft, batch, record)
    was_committed = outcome is not Outcome.NEW
    wanted = [] if was_committed else [entry for entry in named if entry.call_count]
    for entry in wanted:
        _check_whole(draft, batch, entry)
    stage_ids = tuple(stage_id for stage_id, _ in wanted)
    outdated = tuple(
        stage_id
        for stage_id, stage in draft.list_stages().items()
        if stage_id not in stage_ids and not stage.is_committed and stage.transaction.is_covered_by(batch)
    )
    if outdated:
        draft.add(StagesEnded(outdated))
    if not was_committed:
        draft.add(StagesCommitted(batch, stage_ids, record if batch.number is not None else None))
    return outcome


def _outcome(draft: Draft, batch: TransactionId, record: CommitRecord | None) -> Outcome:
    if batch.number is not None:
        return commits.judge(batch, record, draft.find_newest_commit(batch.writer))
    return Outcome.DONE if draft.has_committed(batch) else Outcome.NEW  # its id is never used again


def _check_whole(draft: Draft, batch: TransactionId, entry: CommittedStage) -> None:
    found = draft.find_stage(entry.stage_id)
    if found is None or found.transaction != batch or found.is_committed:
        raise PreconditionFailed(
            f"stage {entry.stage_id} is not there: it was dropped when its timeout was over, or never made"
        )
    if found.call_count != entry.call_count:
        raise PreconditionFailed(
            f"stage {entry.stage_id} has {found.call_count} calls, and its writer made {entry.call_count}: parts of it "
            "were dropped"
        )
    for topic in sorted(found.topics):
        if draft.find_topic(topic) is None:
            raise PreconditionFailed(f"topic {topic}, for which stage {entry.stage_id} holds messages, is gone")


def store_next(draft: Draft, sender: Sender, stage_id: str, now_ms: int) -> int:
    """Stores the rows of the first call of a committed stage, and says how many were dropped since their topic is gone.

    A topic that was changed or made anew since may have fewer queues: what was meant for one that producers no longer
    see goes to another, where it is found. Raises what storing raises; then it is to be tried again.
    """
    stage = draft.require_stage(stage_id)
    call = stage.first_call
    rows = _rows_of(draft, stage_id, call)
    topics = _TopicsNow(draft)
    place, by_queue = 0, dict[MessageQueue, list[pa.RecordBatch]]()
    parts = call.parts
    for queue, count in parts:
        now = topics.queue_for(queue)
        if now is not None:
            by_queue.setdefault(now, []).append(rows.slice(place, count))
        place += count
    queues = [(queue, sum(part.num_rows for part in its_rows)) for queue, its_rows in by_queue.items()]
    if queues:
        kept = rows if len(queues) == len(parts) else pa.concat_batches(list(chain.from_iterable(by_queue.values())))
        sender.store(draft, queues, kept, now_ms)
    draft.add(StagedCallStored(stage_id, call.sequence))
    if stage.call_count == 1:
        draft.add(StagesEnded((stage_id,)))
    stored_count: int = sum(count for _, count in queues)
    return call.row_count - stored_count


class _TopicsNow:
    """The queues that topics have by now, each topic asked about once."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._seen: dict[str, list[MessageQueue] | None] = {}

    def queue_for(self, queue: MessageQueue) -> MessageQueue | None:
        """Where rows go that were meant for a queue; None when its topic is gone."""
        if queue.topic not in self._seen:
            topic = self._draft.find_topic(queue.topic)
            self._seen[queue.topic] = None if topic is None else self._draft.state.writable_queues(topic)
        seen = self._seen[queue.topic]
        if seen is None:
            return None
        return queue if queue in seen or not seen else seen[queue.queue_id % len(seen)]


def _rows_of(draft: Draft, stage_id: str, call: StagedCall) -> pa.RecordBatch:
    until_offset = call.first_offset + call.row_count
    pieces = list(draft.state.store.read(_queue_of(draft, stage_id), call.first_offset, until_offset))
    return pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)


def drop(draft: Draft, batch: TransactionId) -> int:
    """Drops all uncommitted stages of a batch, and says how many there were."""
    _check_batch(batch)
    open_stages = tuple(
        stage_id
        for stage_id, stage in draft.list_stages().items()
        if stage.transaction == batch and not stage.is_committed
    )
    if open_stages:
        draft.add(StagesEnded(open_stages))
    return len(open_stages)


def _queue_of(draft: Draft, stage_id: str) -> MessageQueue:
    return MessageQueue(STAGE_PREFIX + stage_id, draft.state.broker_names[0], 0)


def _check_batch(batch: TransactionId) -> None:
    _check_id("transaction", batch.writer)
    if batch.number is not None and batch.number < 0:
        raise BadRequest(f"batch id {batch.number} is negative")


def _check_id(what: str, text: str) -> None:
    if not 0 < len(text) <= ID_LENGTH_MAX:
        raise BadRequest(f"the id of the {what} has {len(text)} characters, and must have 1 to {ID_LENGTH_MAX}")
