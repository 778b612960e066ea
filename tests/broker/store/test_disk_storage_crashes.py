"""A power cut before any operation of the disk: nothing acknowledged is lost, and nothing else appears."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rmqpull_broker.core.admin.groups import delete_group, put_group
from rmqpull_broker.core.admin.topics import create_topic, delete_topic
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import GroupConfig, Message, MessageQueue, TopicConfig, TopicType
from rmqpull_broker.core.popping.acks import acknowledge, change_invisible_time
from rmqpull_broker.core.popping.pop import pop_messages
from rmqpull_broker.core.popping.receipts import DeliveredMessage
from rmqpull_broker.core.popping.request import PopRequest, PopResult
from rmqpull_broker.core.popping.revival import revive_due
from rmqpull_broker.core.sending.delays import deliver_due
from rmqpull_broker.core.sending.half_messages import Resolution, TransactionEnd, end_transaction
from rmqpull_broker.core.state import retention
from rmqpull_broker.core.state.ports import RetentionLimits
from rmqpull_broker.core.state.stage_facts import TransactionId
from rmqpull_broker.store.disk_storage import StorageOptions
from tests.harness.memory_vfs import DoomedDisk, MemoryFileSystem, PowerCut, lose, tear
from tests.harness.storage import StorageHarness, list_staged
from tests.harness.written_messages import lower_part_limits

OPTIONS = StorageOptions(
    segment_bytes=2_500, save_bytes=1_500, snapshot_bytes=2_000, free_bytes_min=0, queue_file_bytes=2_500, cache_bytes=1
)

Known = dict[str, Any]


Steps = list[Callable[[], object]]


def live(steps_of: Callable[[StorageHarness], Steps], broker: StorageHarness, known: list[Known]) -> None:
    """A life in these steps; ``known`` gets what the broker knows after each write that changes it."""
    write = broker.write

    def write_and_note(fact_batches: Any) -> None:
        write(fact_batches)
        if (observed := broker.observed()) != known[-1]:
            known.append(observed)

    broker.write = write_and_note  # type: ignore[method-assign]
    known.append(broker.observed())
    for step in steps_of(broker):
        step()
        broker.keep_up()
    broker.stop()


def a_whole_life(broker: StorageHarness) -> Steps:
    """All that a disk is ever asked to do."""
    return [
        broker.topic,
        *(partial(broker.send, b"%d" % number * 9, b"more") for number in range(6)),
        partial(broker.publish, *(b"column %d" % number for number in range(20))),
        partial(broker.expire, 0, RetentionLimits(1 << 40, 4_000)),
        partial(broker.run, lambda draft: delete_topic(draft, "orders")),
        partial(broker.topic, "orders", 2),
        *(partial(broker.send, b"%d" % number * 9) for number in range(4)),
        partial(broker.expire, 5_000, RetentionLimits(0)),
        *(partial(broker.send, bytes(900), now_ms=6_000) for _ in range(3)),  # so the last is in a segment of its own
        partial(broker.send, b"last", now_ms=6_000),
        partial(broker.expire, 7_000, RetentionLimits(0)),
    ]


def a_life_of_waiting(broker: StorageHarness) -> Steps:
    """Delayed and half messages that retention stores again, several times, until they are delivered and ended."""

    def send(topic: str, **fields: Any) -> object:
        message = Message(b"x", "ID", born_timestamp_ms=1_000, system_properties={"PGROUP": "payments"}, **fields)
        return broker.run(lambda draft: broker.sender.send(draft, topic, [message], 1_000))

    def check_what_is_left() -> None:
        for topic in ("later", "payments"):
            state = broker.state
            (queue,) = state.list_readable_queues(state.require_topic(topic))
            waiting = state.delayed if topic == "later" else state.halves
            assert len(waiting) + state.bounds(queue).max_offset == (3 if topic == "later" else 1)

    end = TransactionEnd("ID", "payments", Resolution.COMMIT)
    return [
        partial(broker.run, lambda draft: create_topic(draft, TopicConfig("later", 1, 1, TopicType.DELAY))),
        partial(broker.run, lambda draft: create_topic(draft, TopicConfig("payments", 1, 1, TopicType.TRANSACTION))),
        *(partial(send, "later", delivery_timestamp_ms=1_000 + due_in_ms) for due_in_ms in (9_000, 7_000, 60_000)),
        partial(send, "payments", transactional=True),
        broker.topic,
        *(partial(broker.send, bytes(900), now_ms=2_000) for _ in range(4)),
        partial(broker.expire, 2_000, RetentionLimits(1 << 40, 4_000)),
        check_what_is_left,
        partial(broker.expire, 5_000, RetentionLimits(0)),
        check_what_is_left,
        partial(broker.run, lambda draft: deliver_due(draft, 6_000, "host")),
        partial(broker.expire, 7_000, RetentionLimits(0)),
        partial(broker.run, lambda draft: deliver_due(draft, 10_000, "host")),
        partial(broker.run, lambda draft: end_transaction(draft, end, 10_000, "host")),
        check_what_is_left,
        partial(broker.expire, 20_000, RetentionLimits(0)),
    ]


def a_life_of_deliveries(broker: StorageHarness) -> Steps:
    """Messages in flight for two groups, one of which receives in order, through retention and deletions."""
    got = dict[str, list[DeliveredMessage]]()

    def pop(group: str, now_ms: int, **fields: Any) -> None:
        request = PopRequest(group, "orders", "broker-a", max_msg_nums=3, invisible_ms=10_000, **fields)
        results = list[PopResult]()
        broker.run(lambda draft: results.append(pop_messages(draft, request, now_ms, lambda count: 1)))
        got[group] = [
            DeliveredMessage(group, part.queue, result.make_receipt(part, offset, 0))
            for result in results
            for part in result.parts
            for offset in part.offsets
        ]

    def ack(group: str, index: int) -> None:
        broker.run(lambda draft: acknowledge(draft, got[group][index]))

    def change(group: str, index: int) -> None:
        broker.run(lambda draft: change_invisible_time(draft, got[group][index], 50_000, 3_000))

    def revive(now_ms: int) -> None:
        broker.run(lambda draft: revive_due(draft, now_ms, "host", lambda: "id"))

    return [
        broker.topic,
        *(partial(broker.run, partial(put_group, group=GroupConfig(name))) for name in ("readers", "ordered")),
        *(partial(broker.send, b"%d" % number * 99) for number in range(6)),
        partial(pop, "readers", 2_000),
        partial(ack, "readers", 1),
        partial(change, "readers", 2),
        partial(pop, "ordered", 2_500, in_order=True, attempt_id="first"),
        partial(ack, "ordered", 0),
        partial(change, "ordered", 2),
        partial(revive, 12_000),
        partial(pop, "readers", 13_000),
        partial(broker.expire, 5_000, RetentionLimits(0)),
        partial(pop, "ordered", 60_000, in_order=True, attempt_id="second"),
        partial(revive, 70_000),
        partial(broker.run, partial(delete_group, name="ordered")),
        partial(broker.send, b"again", now_ms=70_000),
        partial(pop, "readers", 70_000),
        partial(broker.run, lambda draft: delete_topic(draft, "orders")),
        partial(broker.topic, "orders", 2),
    ]


def a_life_of_stages(broker: StorageHarness) -> Steps:
    """Calls of several stages with large and small parts, which retention and deletions meet before and after the
    commits."""
    first, second, third = (TransactionId("query", number) for number in range(1, 4))

    def commit_during_a_snapshot() -> None:
        """The snapshot describes the stage as it was before the commit."""
        job = broker.storage.last_job(broker.state)
        broker.commit(("a", 2), ("b", 1), batch=first, now_ms=2_000)
        broker.do(job)

    def save_during_a_commit() -> None:
        job = broker.storage._save_job()
        broker.commit(("d", 1), batch=third, now_ms=4_000)
        broker.do(job)

    return [
        partial(broker.topic, queue_nums=2),
        partial(broker.run, lambda draft: create_topic(draft, TopicConfig("later", 1, 1, TopicType.DELAY))),
        partial(broker.stage, "a", 1, b"a1", delayed=[b"late", b"later"], batch=first),
        partial(broker.send, b"between"),
        partial(broker.stage, "b", 0, *(b"b%d" % number for number in range(7)), batch=first),
        partial(broker.stage, "a", 0, b"a0", batch=first),
        commit_during_a_snapshot,
        broker.store_delayed,
        *(partial(broker.stage, "c", number, b"c%d" % number, batch=second, now_ms=3_000) for number in range(3)),
        partial(broker.stage, "dropped", 0, b"never", batch=TransactionId("other", 1), now_ms=1_000),
        partial(broker.expire, 3_000, RetentionLimits(1 << 40, 9_000)),
        partial(broker.commit, ("c", 3), batch=second, now_ms=3_000),
        partial(broker.stage, "d", 0, b"d0", b"d1", b"d2", batch=third, now_ms=4_000),
        save_during_a_commit,
        partial(broker.send, bytes(900), now_ms=5_000),
        partial(broker.expire, 5_000, RetentionLimits(1 << 40, 4_000)),
        partial(broker.run, lambda draft: deliver_due(draft, 6_000, "host")),
        partial(broker.stage, "e", 0, b"e0", b"e1", batch=TransactionId("query", 4), now_ms=6_000),
        partial(broker.expire, 9_000, RetentionLimits(0)),
    ]


def commit_open_stages(broker: StorageHarness) -> None:
    """Commits all open stages: exactly their rows follow those of the queues, and no offset is left out."""
    state = broker.state
    stages = {stage_id: stage for stage_id, stage in sorted(state.stages.all().items()) if not stage.is_committed}
    if not stages:
        return
    for transaction in sorted({stage.transaction for stage in stages.values()}):
        staged, expected = list_staged(state.store), dict[MessageQueue, list[bytes]]()
        named = {at: stage.call_count for at, stage in stages.items() if stage.transaction == transaction}
        for queue, bodies in (each for stage_id in named for each in staged.get(stage_id, {}).items()):
            expected.setdefault(queue, broker.bodies(queue)).extend(bodies)
        broker.commit(*named.items(), batch=transaction, now_ms=20_000)
        assert {queue: broker.bodies(queue) for queue in expected} == expected
        assert state.stages.has_committed(transaction)
    for queue in state.store.list_queues():
        rows, bounds = columns.to_rows(state.store.read(queue, *state.bounds(queue))), state.bounds(queue)
        assert [row.queue_offset for row in rows] == list(range(*bounds))


@pytest.mark.parametrize("syncs_appends", [True, False])
@pytest.mark.parametrize(
    ("life", "torn_count"),
    [(a_whole_life, 4), (a_life_of_waiting, 4), (a_life_of_deliveries, 4), (a_life_of_stages, 1)],
)
def test_a_power_cut_before_any_operation_loses_nothing_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
    life: Callable[[StorageHarness], Steps],
    torn_count: int,
    syncs_appends: bool,
) -> None:
    monkeypatch.setattr(retention, "PUT_AGAIN_MAX", 2)
    lower_part_limits(monkeypatch, 2)
    options = dataclasses.replace(OPTIONS, syncs_appends=syncs_appends)
    undisturbed: list[Known] = []
    live(life, StorageHarness(MemoryFileSystem(), options), undisturbed)
    operations, is_over = 0, False
    while not is_over:
        disk, acknowledged = DoomedDisk(operations), list[Known]()
        try:
            live(life, StorageHarness(disk, options), acknowledged)
            is_over = True
        except PowerCut:
            pass
        assert acknowledged == undisturbed[: len(acknowledged)]
        for after in disk.list_crashed((lose, bytes, *map(tear, range(torn_count)))):
            broker = StorageHarness(after, options)
            reached = undisturbed.index(broker.observed()) + 1
            # A write in flight may have been kept without a response.
            assert reached <= max(len(acknowledged), 1) + 1
            assert reached >= len(acknowledged) or not syncs_appends
            broker.topic("afterwards")
            commit_open_stages(broker)
            broker.storage.sync()
            assert StorageHarness(after.crashed(), options).observed() == broker.observed()
        operations += 1
    assert operations > 50
