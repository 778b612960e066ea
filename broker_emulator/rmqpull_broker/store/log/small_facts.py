"""Facts without messages as JSON values, in the headers of records.

Configurations are objects by field name, so that later releases can add fields that older records do not have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from rmqpull_broker.core.model import (
    CustomizedBackoff,
    ExponentialBackoff,
    GroupConfig,
    MessageQueue,
    TopicConfig,
    TopicType,
)
from rmqpull_broker.core.state.facts import (
    ClockRead,
    Fact,
    GroupDeleted,
    GroupPut,
    LostRange,
    OffsetsCommitted,
    OffsetsReset,
    PopEnded,
    Popped,
    PoppedInOrder,
    QueuesTrimmed,
    RequestModeSet,
    ResetsAnswered,
    RowsLost,
    StillReset,
    StillWaiting,
    TopicDeleted,
    TopicPut,
    WaitingEnded,
)
from rmqpull_broker.core.state.lengths import UNKNOWN_LENGTH
from rmqpull_broker.core.state.stage_facts import (
    CallStaged,
    CommitRecord,
    HeldCall,
    Splice,
    StagedCallStored,
    StagedPart,
    StagesCommitted,
    StagesEnded,
    StillStaged,
    TransactionId,
)


class Codec(NamedTuple):
    """Converts facts of one type to JSON and back. ``kind`` is the number of the type on the disk."""

    kind: int
    fact: type[Fact]
    to_json: Callable[[Any], Any]
    from_json: Callable[[Any], Fact]


def _topic_to_json(fact: TopicPut) -> dict[str, Any]:
    return {**vars(fact.topic), "topic_type": fact.topic.topic_type.value}


def _topic_from_json(form: dict[str, Any]) -> TopicPut:
    return TopicPut(TopicConfig(**{**form, "topic_type": TopicType(form["topic_type"])}))


def _group_to_json(fact: GroupPut) -> dict[str, Any]:
    """A group without its own retry policy and flag is written as in releases that did not have them."""
    form = {name: value for name, value in vars(fact.group).items() if value is not None}
    if fact.group.retry_policy is not None:
        form["retry_policy"] = asdict(fact.group.retry_policy)
    return form if fact.group.group_sys_flag else {name: form[name] for name in form if name != "group_sys_flag"}


def _group_from_json(form: dict[str, Any]) -> GroupPut:
    policy = form.get("retry_policy")
    if policy is None:
        return GroupPut(GroupConfig(**form))
    if "next_ms" in policy:
        backoff: CustomizedBackoff | ExponentialBackoff = CustomizedBackoff(tuple(policy["next_ms"]))
    else:
        backoff = ExponentialBackoff(**policy)
    return GroupPut(GroupConfig(**{**form, "retry_policy": backoff}))


def _offsets_from_json(form: Any) -> tuple[tuple[MessageQueue, int], ...]:
    return tuple((MessageQueue(*queue), offset) for queue, offset in form)


def _popped_to_json(fact: Popped) -> list[Any]:
    times = [fact.pop_time_ms, fact.invisible_ms, *([] if fact.begin_ms is None else [fact.begin_ms])]
    return [fact.group, fact.queue, _offset_ranges_to_json(fact.offsets), *times]


def _popped_from_json(form: Any) -> Popped:
    group, queue, offsets, *times = form
    return Popped(group, MessageQueue(*queue), _offset_ranges_from_json(offsets), *times)


def _pop_ended_from_json(form: Any) -> PopEnded:
    group, queue, offsets, pop_time_ms = form
    return PopEnded(group, MessageQueue(*queue), _offset_ranges_from_json(offsets), pop_time_ms)


def _offset_ranges_to_json(offsets: Sequence[int]) -> dict[str, int] | Sequence[int]:
    """Consecutive offsets, as most deliveries have, are written as the first one and their number."""
    return {"first": offsets.start, "count": len(offsets)} if isinstance(offsets, range) else offsets


def _offset_ranges_from_json(form: Any) -> Sequence[int]:
    return range(form["first"], form["first"] + form["count"]) if isinstance(form, dict) else tuple(form)


def _ordered_to_json(fact: PoppedInOrder) -> dict[str, Any]:
    return {name: value for name, value in asdict(fact).items() if value not in ("", (), None)} | {"queue": fact.queue}


def _ordered_from_json(form: Any) -> PoppedInOrder:
    form = {name: tuple(value) if isinstance(value, list) else value for name, value in form.items()}
    times = {name: tuple(map(tuple, form.get(name, ()))) for name in ("visible_ms", "changed_ms")}
    return PoppedInOrder(**{"offsets": (), **form, "queue": MessageQueue(*form["queue"]), **times})


def _lost_from_json(form: Any) -> RowsLost:
    query_id, batch_id, ranges = form
    return RowsLost(query_id, batch_id, tuple(LostRange(MessageQueue(*queue), *within) for queue, *within in ranges))


def _call_from_json(form: Any) -> CallStaged:
    transaction, stage_id, sequence, first_offset, parts, *others = form
    return CallStaged(TransactionId(*transaction), stage_id, sequence, first_offset, _offsets_from_json(parts), *others)


def _still_staged_from_json(form: Any) -> StillStaged:
    transaction, stage_id, calls, parts = form
    held = tuple(HeldCall(*call) for call in calls)
    placed = tuple(StagedPart(MessageQueue(*queue), *sizes) for queue, *sizes in parts)
    return StillStaged(TransactionId(*transaction), stage_id, held, placed)


def _commit_to_json(fact: StagesCommitted) -> list[Any]:
    record = None
    if fact.record is not None:
        plan, destination, row_count, digest = fact.record
        record = [plan.hex(), destination, row_count, digest.hex()]
    return [fact.transaction, fact.stage_ids, record, fact.splices]


def _commit_from_json(form: Any) -> StagesCommitted:
    transaction, stage_ids, *more = form  # facts of older releases have no record, or no splices
    record_form, splice_forms = (more + [None, ()][len(more) :])[:2]
    record = None
    if record_form is not None:
        plan, destination, row_count, digest = record_form
        record = CommitRecord(bytes.fromhex(plan), destination, row_count, bytes.fromhex(digest))
    splices = (Splice(MessageQueue(*source), MessageQueue(*queue), *rest) for source, queue, *rest in splice_forms)
    return StagesCommitted(TransactionId(*transaction), tuple(stage_ids), record, tuple(splices))


def _ended_to_json(fact: StagesEnded) -> Any:
    """A fact without a limit is a list of stages, as in older releases."""
    return {"stages": fact.stage_ids, "limit": fact.limit} if fact.limit else fact.stage_ids


def _ended_from_json(form: Any) -> StagesEnded:
    if isinstance(form, dict):
        return StagesEnded(tuple(form["stages"]), form["limit"])
    return StagesEnded(tuple(form))


CODECS = (
    Codec(1, TopicPut, _topic_to_json, _topic_from_json),
    Codec(2, GroupPut, _group_to_json, _group_from_json),
    # Numbers 3, 4, 26 and 27 are messages, 19 and 24 StillDelayed, all of which ``record`` encodes.
    Codec(
        5,
        OffsetsCommitted,
        lambda f: [f.group, f.offsets],
        lambda j: OffsetsCommitted(j[0], _offsets_from_json(j[1])),
    ),
    Codec(6, RowsLost, lambda f: [f.query_id, f.batch_id, f.ranges], _lost_from_json),
    Codec(7, TopicDeleted, lambda f: f.topic, TopicDeleted),
    Codec(8, GroupDeleted, lambda f: f.group, GroupDeleted),
    Codec(9, OffsetsReset, lambda f: [f.group, f.offsets], lambda j: OffsetsReset(j[0], _offsets_from_json(j[1]))),
    Codec(
        10,
        ResetsAnswered,
        lambda f: [f.group, f.queues],
        lambda j: ResetsAnswered(j[0], tuple(MessageQueue(*queue) for queue in j[1])),
    ),
    Codec(
        11,
        WaitingEnded,
        lambda f: [f.queue, f.queue_offsets, *([f.due_ms] if f.due_ms else [])],
        lambda j: WaitingEnded(MessageQueue(*j[0]), *map(tuple, j[1:])),
    ),
    Codec(
        13,
        StillWaiting,
        lambda f: [f.queue, f.entries],
        lambda j: StillWaiting(MessageQueue(*j[0]), tuple((*entry, UNKNOWN_LENGTH)[:4] for entry in j[1])),
    ),
    Codec(14, StillReset, lambda f: [f.group, f.offsets], lambda j: StillReset(j[0], _offsets_from_json(j[1]))),
    Codec(
        15,
        CallStaged,
        lambda f: [f.transaction, f.stage_id, f.sequence, f.first_offset, f.parts, f.timeout_ms, f.byte_count],
        _call_from_json,
    ),
    Codec(16, StagesCommitted, _commit_to_json, _commit_from_json),
    Codec(17, StagedCallStored, lambda f: [f.stage_id, f.sequence], lambda j: StagedCallStored(*j)),
    Codec(18, StagesEnded, _ended_to_json, _ended_from_json),
    Codec(20, Popped, _popped_to_json, _popped_from_json),
    Codec(
        21,
        PopEnded,
        lambda f: [f.group, f.queue, _offset_ranges_to_json(f.offsets), f.pop_time_ms],
        _pop_ended_from_json,
    ),
    Codec(22, PoppedInOrder, _ordered_to_json, _ordered_from_json),
    Codec(23, RequestModeSet, asdict, lambda j: RequestModeSet(**j)),
    Codec(
        28,
        StillStaged,
        lambda f: [f.transaction, f.stage_id, f.calls, f.parts],
        _still_staged_from_json,
    ),
    Codec(25, ClockRead, lambda f: f.time_ms, ClockRead),
    Codec(12, QueuesTrimmed, lambda f: f.min_offsets, lambda j: QueuesTrimmed(_offsets_from_json(j))),
)

BY_KIND = {codec.kind: codec for codec in CODECS}
BY_FACT = {codec.fact: codec for codec in CODECS}
