"""Limits of stages: rows and bytes of each stage, and the memory of the broker for all of them."""

from __future__ import annotations

import tracemalloc

import pyarrow as pa
import pytest

from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.core.messages.columns import UNPLACED_SCHEMA
from rmqpull_broker.core.model import LoggedMessage, MessageQueue
from rmqpull_broker.core.sending.stage_commands import drop, stage
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.ports import LogRange
from rmqpull_broker.core.state.stage_facts import ColumnsStaged, StagedPart
from rmqpull_broker.core.state.stages import CALL_BYTES, PART_BYTES, Stages
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues
from tests.broker.core.sending.test_stage_commands import BATCH, WRITE, finish, hand_over
from tests.harness.core import CoreHarness


def test_open_stages_are_limited(core: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    core.topic()
    monkeypatch.setattr("rmqpull_broker.core.sending.stage_commands.STAGES_MAX", 1)
    hand_over(core, b"1")
    hand_over(core, b"2", sequence=1)
    with pytest.raises(TooManyRequests, match="stage b of transaction write cannot be opened: 1 stages are open"):
        hand_over(core, b"3", stage_id="b", batch=WRITE)


def test_open_stages_are_counted_with_what_the_draft_changes(core: CoreHarness) -> None:
    core.topic()
    hand_over(core, b"1")
    hand_over(core, b"2", stage_id="b", batch=WRITE)
    draft = Draft(core.state)
    assert draft.count_stages() == 2
    drop(draft, BATCH)
    draft.end_command()
    assert draft.count_stages() == 1
    for stage_id in ("a", "b", "c"):  # one that is gone, one that is there, a new one
        stage(draft, core.sender, WRITE, stage_id, 7, core.check(core.batch([b"3"])), 1)
        draft.end_command()
    assert draft.count_stages() == len(draft.list_stages()) == 3


@pytest.mark.parametrize(("name", "what", "limit"), [("STAGE_ROWS_MAX", "rows", 4), ("STAGE_BYTES_MAX", "bytes", 40)])
def test_a_stage_is_limited_by_its_rows_and_bytes_and_not_by_its_calls(
    core: CoreHarness, monkeypatch: pytest.MonkeyPatch, name: str, what: str, limit: int
) -> None:
    core.topic()
    monkeypatch.setattr(f"rmqpull_broker.core.sending.stage_commands.{name}", limit)
    hand_over(core, b"x" * 10, b"x" * 10)
    hand_over(core, b"x" * 10, sequence=1)
    staged, added = limit * 3 // 4, limit // 2
    sentence = (
        f"stage a of transaction query has {staged} {what}, and {added} more would exceed the max of {limit} for one "
        "stage.*write with more tasks"
    )
    with pytest.raises(TooManyRequests, match=sentence):
        hand_over(core, b"x" * 10, b"x" * 10, sequence=2)
    assert hand_over(core, b"x" * 10, sequence=3)
    assert hand_over(core, b"x" * 10, sequence=3)  # a repeated call adds nothing
    assert hand_over(core, b"x" * 10, b"x" * 10, stage_id="b")


def test_what_the_broker_notes_of_all_stages_is_limited_by_its_memory(
    core: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    core.topic()
    hand_over(core, b"1")
    monkeypatch.setattr("rmqpull_broker.core.sending.stage_commands.STATE_BYTES_MAX", 2 * (CALL_BYTES + PART_BYTES))
    hand_over(core, b"2", stage_id="b", batch=WRITE)
    with pytest.raises(TooManyRequests, match=r"stage a of transaction query cannot grow.*raise batchBytes"):
        hand_over(core, b"3", sequence=1)
    finish(core, ("a", 1))
    assert hand_over(core, b"3", stage_id="b", sequence=1, batch=WRITE)
    core.run(lambda draft: drop(draft, WRITE))
    assert core.state.stages.state_bytes == 0


@pytest.mark.parametrize(("call_count", "topic_count"), [(3_000, 1), (100, 40)])
def test_the_notes_on_a_call_take_no_more_memory_than_is_counted(call_count: int, topic_count: int) -> None:
    queues = [MessageQueue(f"topic-{at // 4}", "broker-a", at % 4) for at in range(4 * topic_count)]
    parts = tuple(StagedPart(queue, 1_000, 100_000, 120_000) for queue in queues)
    rows = pa.record_batch([pa.array([], field.type) for field in UNPLACED_SCHEMA], UNPLACED_SCHEMA)
    store = ConsumeQueues()
    stages = Stages()
    tracemalloc.start()
    try:
        for number in range(call_count):
            message = LoggedMessage(0, number << 20, 1 << 20, 1 << 31, 1_000 * len(parts), 1)
            staged = ColumnsStaged(BATCH, "a", number, parts, 600_000, 1 << 40, rows, (message,))
            stages.apply(staged)
            store.apply(staged, LogRange(0, number << 20, (number + 1) << 20))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used <= stages.state_bytes
    stage = stages.all()["a"]
    assert stage.call_count == call_count
    assert stage.topics == {queue.topic for queue in queues}
