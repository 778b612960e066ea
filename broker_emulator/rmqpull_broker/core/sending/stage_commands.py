"""Commands on stages: write tasks stage messages, a commit makes all of them readable at once, or they are dropped.

    =======================  =====================================================================================
    command                  what it changes
    =======================  =====================================================================================
    stage                    stores rows that nobody can read; their target queues are selected already
    commit                   gives the rows offsets and a store time, all of them in one fact
    store_next               stores the delayed rows of one call again, in the system queue in which they wait
    drop                     deletes the rows
    =======================  =====================================================================================

The log has each row once, in the record of its call; a commit says where these records belong. Delayed rows are
different: each becomes a message of a system queue, so they are stored call by call after the commit. The rows of a
call and the fact that they are stored are one batch of facts, so a call is stored once.
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
from rmqpull_broker.core.sending.publishing import CheckedBatch
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.core.sending.storing import BatchToStore, split_delayed
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import ColumnsStored, QueuePart
from rmqpull_broker.core.state.names import STAGE_PREFIX
from rmqpull_broker.core.state.stage_facts import (
    CallStaged,
    ColumnsStaged,
    CommitRecord,
    Splice,
    StagedCallStored,
    StagedPart,
    StagesCommitted,
    StagesEnded,
    TransactionId,
)
from rmqpull_broker.core.state.stages import CALL_BYTES, PART_BYTES, Placed, Stage, StagedCall

STAGES_MAX = 10_000
"""Stages that may be open at a time."""
STAGE_ROWS_MAX = 100_000_000
STAGE_BYTES_MAX = 40 << 30
"""The maximum of one write task: rows, and bytes of their bodies, tags, keys and user properties."""
STATE_BYTES_MAX = 128 << 20
"""The approximate memory that the state of all stages may take. Their rows are on disk."""
ID_LENGTH_MAX = 255


def stage(
    draft: Draft,
    sender: Sender,
    transaction: TransactionId,
    stage_id: str,
    sequence: int,
    checked: CheckedBatch,
    now_ms: int,
    timeout_ms: int = 0,
) -> bool:
    """Adds a call to a stage, and creates a new stage. A call that the stage already has changes nothing.

    Returns False when the transaction was committed before. Then there is nothing to stage, and the commit decides
    whether it is the same transaction. Raises BadRequest for wrong ids and numbers, InvalidTransactionId for a
    transaction that is older than the newest committed one, PreconditionFailed for a stage that is committed or belongs
    to another transaction, TooManyRequests above the limits, and what ``Sender.prepare`` raises.
    """
    _check_transaction(transaction)
    _check_id("stage", stage_id)
    if sequence < 0:
        raise BadRequest(f"sequence {sequence} of stage {stage_id} is negative")
    commits.refuse_older(transaction, draft.find_newest_commit(transaction.writer))
    if draft.has_committed(transaction):
        return False
    _refuse_dropped(draft, stage_id)
    found = draft.find_stage(stage_id)
    if found is None and draft.count_stages() >= STAGES_MAX:
        raise TooManyRequests(
            f"stage {stage_id} of transaction {transaction.writer} cannot be opened: {STAGES_MAX} stages are open "
            "already, the max. Commit or drop other transactions first, or write with fewer tasks at a time"
        )
    if found is not None and (found.is_committed or found.transaction != transaction):
        raise PreconditionFailed(f"stage {stage_id} is committed, or belongs to another transaction")
    if found is not None and found.has(sequence):
        return True
    placed, delayed = split_delayed(sender.prepare(draft, checked, now_ms))
    parts = _measure_parts(placed)
    delayed_bytes = columns.count_bytes(delayed.batch) if delayed.queues else 0
    row_count = placed.batch.num_rows + delayed.batch.num_rows
    byte_count = sum(part.byte_count for part in parts) + delayed_bytes
    _check_limits(draft, transaction, stage_id, row_count, byte_count, len(parts))
    if parts:
        rows = placed.batch.select(columns.UNPLACED_SCHEMA.names)
        draft.add(ColumnsStaged(transaction, stage_id, sequence, parts, timeout_ms, now_ms, rows))
    if delayed.queues:
        queue = _find_stage_queue(draft, stage_id)
        first_offset = draft.find_next_offset(queue)
        offsets = columns.make_offset_column(first_offset, delayed.batch.num_rows)
        rows = delayed.batch.set_column(0, columns.STORED_SCHEMA.field(0), offsets)
        draft.add(ColumnsStored((QueuePart(queue, first_offset, rows.num_rows),), rows))
        targets = tuple(delayed.queues)
        draft.add(CallStaged(transaction, stage_id, sequence, first_offset, targets, timeout_ms, delayed_bytes))
    return True


def _refuse_dropped(draft: Draft, stage_id: str) -> None:
    """Raises PreconditionFailed for a stage that retention dropped."""
    limit = draft.find_dropping_limit(stage_id)
    if limit is not None:
        raise PreconditionFailed(
            f"stage {stage_id} was dropped: its oldest rows were in the part of the log that {limit} deletes. Raise "
            f"{limit} on the broker, or write less at a time"
        )


def _measure_parts(placed: BatchToStore) -> tuple[StagedPart, ...]:
    if not placed.queues:
        return ()
    counts = [count for _, count in placed.queues]
    body_bytes = columns.sum_parts(columns.count_body_bytes(placed.batch), counts)
    byte_counts = columns.sum_parts(columns.count_row_bytes(placed.batch), counts)
    return tuple(
        StagedPart(queue, count, *sizes)
        for (queue, count), *sizes in zip(placed.queues, body_bytes, byte_counts, strict=True)
    )


def _check_limits(
    draft: Draft, transaction: TransactionId, stage_id: str, row_count: int, byte_count: int, part_count: int
) -> None:
    """Raises TooManyRequests unless the stage may also have these rows."""
    found = draft.find_stage(stage_id) or Stage(transaction)
    for what, staged, added, limit in (
        ("rows", found.row_count, row_count, STAGE_ROWS_MAX),
        ("bytes", found.byte_count, byte_count, STAGE_BYTES_MAX),
    ):
        if staged + added > limit:
            raise TooManyRequests(
                f"stage {stage_id} of transaction {transaction.writer} has {staged:,} {what}, and {added:,} more would "
                f"exceed the max of {limit:,} for one stage. A stage has the rows of one task: write with more tasks, "
                "so that each has fewer rows (in Spark, repartition the rows before the write)"
            )
    staged = draft.state.stages.state_bytes
    if staged + CALL_BYTES + PART_BYTES * part_count > STATE_BYTES_MAX:
        raise TooManyRequests(
            f"stage {stage_id} of transaction {transaction.writer} cannot grow: the state of all stages, about "
            f"{CALL_BYTES} bytes for each call and {PART_BYTES} for each of its queues, takes {staged:,} of at most "
            f"{STATE_BYTES_MAX:,} bytes of memory. "
            "Commit or drop other transactions first, or send more rows in each call (in Spark, raise batchBytes)"
        )


class CommittedStage(NamedTuple):
    """A stage in a commit, with the number of calls that it must have."""

    stage_id: str
    call_count: int


def commit(
    draft: Draft,
    store_host: str,
    transaction: TransactionId,
    named: Sequence[CommittedStage],
    now_ms: int,
    record: CommitRecord | None = None,
    row_count: int | None = None,
    *,
    refuse_gap: bool = False,
) -> Outcome:
    """Commits a transaction with exactly these stages and drops its other stages, unless it was committed before.

    All rows become readable at once, with the same store time in each queue. A topic that has changed since they were
    staged may have fewer queues: rows of a queue that producers no longer see go to another queue of the topic.
    ``row_count`` is the number of rows that the stages must have in all; None if the writer does not report it. With
    ``refuse_gap``, nothing changes if numbers are missing before that of the transaction.

    Raises BadRequest for wrong ids, InvalidTransactionId when another transaction was committed under this number (see
    ``commits``), PreconditionFailed when a stage is missing or not complete, its topic is deleted, or the stages lack
    rows. Then nothing changes.
    """
    _check_transaction(transaction)
    if len({stage_id for stage_id, _ in named}) < len(named):
        raise BadRequest("the commit names a stage twice")
    if record is not None:
        commits.check_record(record)
    outcome = _decide_outcome(draft, transaction, record)
    if outcome is Outcome.NEW and refuse_gap and count_missing(draft, transaction):
        return Outcome.GAP
    was_committed = outcome is not Outcome.NEW
    wanted = [] if was_committed else [entry for entry in named if entry.call_count]
    for entry in wanted:
        _check_complete(draft, transaction, entry)
    if not was_committed:
        staged = sum(draft.require_stage(entry.stage_id).row_count for entry in wanted)
        commits.check_rows(transaction, staged, record, row_count)
    stage_ids = tuple(stage_id for stage_id, _ in wanted)
    others = draft.list_stages()
    for stage_id in stage_ids:
        del others[stage_id]
    outdated = tuple(
        stage_id
        for stage_id, stage in others.items()
        if not stage.is_committed and stage.transaction.is_covered_by(transaction)
    )
    if outdated:
        draft.add(StagesEnded(outdated))
    if not was_committed:
        splices = _splice(draft, store_host, stage_ids, now_ms)
        kept_record = record if transaction.number is not None else None
        draft.add(StagesCommitted(transaction, stage_ids, kept_record, splices))
    return outcome


def _splice(draft: Draft, store_host: str, stage_ids: Sequence[str], now_ms: int) -> tuple[Splice, ...]:
    """Returns where the rows of stages become readable."""
    placed: dict[MessageQueue, Placed] = {}
    for stage_id in stage_ids:
        for source, its_rows in draft.require_stage(stage_id).placed.items():
            placed[source] = placed.get(source, Placed()).sum(its_rows)
    topics, next_offsets, splices = _CurrentQueues(draft), dict[MessageQueue, int](), list[Splice]()
    for source, (row_count, body_bytes, _) in sorted(placed.items()):
        if (queue := topics.find_queue(source)) is None:
            raise PreconditionFailed(f"topic {source.topic}, for which the stages have messages, is deleted")
        first_offset = next_offsets.get(queue) or draft.find_next_offset(queue)
        next_offsets[queue] = first_offset + row_count
        store_ms, host = draft.find_store_ms(queue, now_ms), draft.find_store_host(queue, store_host)
        splices.append(Splice(source, queue, first_offset, row_count, body_bytes, store_ms, host))
    return tuple(splices)


def count_missing(draft: Draft, transaction: TransactionId) -> int:
    """Returns how many numbers are missing before that of a transaction (see ``commits``)."""
    return commits.count_missing(transaction, draft.find_newest_commit(transaction.writer))


def _decide_outcome(draft: Draft, transaction: TransactionId, record: CommitRecord | None) -> Outcome:
    if transaction.number is not None:
        return commits.judge(transaction, record, draft.find_newest_commit(transaction.writer))
    return Outcome.DONE if draft.has_committed(transaction) else Outcome.NEW  # its id is never reused


def _check_complete(draft: Draft, transaction: TransactionId, entry: CommittedStage) -> None:
    _refuse_dropped(draft, entry.stage_id)
    found = draft.find_stage(entry.stage_id)
    if found is None or found.transaction != transaction or found.is_committed:
        raise PreconditionFailed(
            f"stage {entry.stage_id} does not exist: it was dropped after its timeout, or never created"
        )
    if found.call_count != entry.call_count:
        raise PreconditionFailed(
            f"stage {entry.stage_id} has {found.call_count} calls, but its writer made {entry.call_count}: some were "
            "dropped"
        )
    for topic in sorted(found.topics):
        if draft.find_topic(topic) is None:
            raise PreconditionFailed(f"topic {topic}, for which stage {entry.stage_id} has messages, is deleted")


def store_next(draft: Draft, sender: Sender, stage_id: str, now_ms: int) -> int:
    """Stores the delayed rows of the first call of a committed stage. Returns how many had a deleted topic.

    A topic that has changed since may have fewer queues. Rows of a queue that producers no longer see go to another
    queue of the topic. Raises what ``Sender.store`` raises; then the caller must try again.
    """
    stage = draft.require_stage(stage_id)
    call = stage.first_call
    rows = _read_rows(draft, stage_id, call)
    topics = _CurrentQueues(draft)
    begin, by_queue = 0, dict[MessageQueue, list[pa.RecordBatch]]()
    parts = call.parts
    for queue, count in parts:
        now = topics.find_queue(queue)
        if now is not None:
            by_queue.setdefault(now, []).append(rows.slice(begin, count))
        begin += count
    queues = [(queue, sum(part.num_rows for part in its_rows)) for queue, its_rows in by_queue.items()]
    if queues:
        kept = (
            rows if len(queues) == len(parts) else columns.concat_batches(list(chain.from_iterable(by_queue.values())))
        )
        sender.store(draft, BatchToStore(queues, kept), now_ms)
    draft.add(StagedCallStored(stage_id, call.sequence))
    if stage.call_count == 1:
        draft.add(StagesEnded((stage_id,)))
    stored_count: int = sum(count for _, count in queues)
    return call.delayed_count - stored_count


class _CurrentQueues:
    """The present queues of topics. Each topic is looked up once."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._seen: dict[str, list[MessageQueue] | None] = {}

    def find_queue(self, queue: MessageQueue) -> MessageQueue | None:
        """Returns the queue for rows of a target queue; None when its topic is deleted."""
        if queue.topic not in self._seen:
            topic = self._draft.find_topic(queue.topic)
            self._seen[queue.topic] = None if topic is None else self._draft.state.list_writable_queues(topic)
        seen = self._seen[queue.topic]
        if seen is None:
            return None
        return queue if queue in seen or not seen else seen[queue.queue_id % len(seen)]


def _read_rows(draft: Draft, stage_id: str, call: StagedCall) -> pa.RecordBatch:
    until_offset = call.first_offset + call.delayed_count
    pieces = list(draft.state.store.read(_find_stage_queue(draft, stage_id), call.first_offset, until_offset))
    return pieces[0] if len(pieces) == 1 else columns.concat_batches(pieces)


def drop(draft: Draft, transaction: TransactionId) -> int:
    """Drops all uncommitted stages of a transaction, and returns their number."""
    _check_transaction(transaction)
    open_stages = tuple(
        stage_id
        for stage_id, stage in draft.list_stages().items()
        if stage.transaction == transaction and not stage.is_committed
    )
    if open_stages:
        draft.add(StagesEnded(open_stages))
    return len(open_stages)


def _find_stage_queue(draft: Draft, stage_id: str) -> MessageQueue:
    return MessageQueue(STAGE_PREFIX + stage_id, draft.state.broker_names[0], 0)


def _check_transaction(transaction: TransactionId) -> None:
    _check_id("transaction", transaction.writer)
    if transaction.number is not None and transaction.number < 0:
        raise BadRequest(f"batch id {transaction.number} is negative")


def _check_id(what: str, text: str) -> None:
    if not 0 < len(text) <= ID_LENGTH_MAX:
        raise BadRequest(f"the id of the {what} has {len(text)} characters; it needs 1 to {ID_LENGTH_MAX}")
