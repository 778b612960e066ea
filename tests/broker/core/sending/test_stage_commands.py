"""Messages that are handed over in stages and committed together, or never seen by anybody."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rmqpull_broker.core.admin.topics import delete_topic, put_topic
from rmqpull_broker.core.errors import (
    BadRequest,
    BrokerError,
    IllegalDeliveryTime,
    InvalidTransactionId,
    MessagePropertyConflictWithType,
    PreconditionFailed,
    TopicNotFound,
)
from rmqpull_broker.core.model import MessageQueue, TopicConfig, TopicType
from rmqpull_broker.core.sending.commits import Outcome
from rmqpull_broker.core.sending.publishing import TopicPart
from rmqpull_broker.core.sending.stage_commands import CommittedStage, drop, stage, store_next
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.stage_facts import CommitRecord, TransactionId
from rmqpull_broker.core.state.stages import WRITES_REMEMBERED_MAX
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues
from tests.harness.core import CoreHarness, commit_stages

BATCH = TransactionId("query", 7)
WRITE = TransactionId("write", None)
RECORD = CommitRecord(b"plan", "orders", 1, b"digest")
DUE = pa.array([9_000_000, 9_000_000], pa.timestamp("us", tz="UTC"))


def hand_over(
    core: CoreHarness,
    *bodies: bytes,
    stage_id: str = "a",
    sequence: int = 0,
    batch: TransactionId = BATCH,
    topic: str = "orders",
    **texts: list[str | None] | pa.Array,
) -> bool:
    """Stages messages; ``texts`` are further columns."""
    rows = pa.record_batch({"body": pa.array(bodies, pa.binary()), **texts})
    checked = core.check(rows, topic)
    return core.run(lambda draft: stage(draft, core.sender, batch, stage_id, sequence, checked, core.now_ms))


def finish(
    core: CoreHarness, *named: tuple[str, int], batch: TransactionId = BATCH, record: CommitRecord | None = None
) -> bool:
    """Commits, and stores everything that this makes readable. Whether it was new."""
    outcome = core.run(
        lambda draft: commit_stages(
            draft, batch, [CommittedStage(*entry) for entry in named], record, now_ms=core.now_ms
        )
    )
    for stage_id in list(core.state.stages.list_committing()):
        while core.state.stages.find(stage_id) is not None:
            store_call(core, stage_id)
    return outcome is Outcome.NEW


def store_call(core: CoreHarness, stage_id: str = "a") -> int:
    return core.run(lambda draft: store_next(draft, core.sender, stage_id, core.now_ms))


def bodies(core: CoreHarness, queue: MessageQueue | None = None) -> list[bytes]:
    return [row.message.body for row in core.rows(queue or core.queue())]


def test_staged_messages_are_not_readable_before_the_commit(core: CoreHarness) -> None:
    core.topic()
    assert hand_over(core, b"1", b"2")
    assert bodies(core) == []
    assert list(core.state.topics) == ["orders"]
    core.now_ms = 5_000
    assert finish(core, ("a", 1))
    assert [(row.message.body, row.queue_offset, row.store_timestamp_ms) for row in core.rows(core.queue())] == [
        (b"1", 0, 5_000),
        (b"2", 1, 5_000),
    ]
    assert not core.state.stages.all()
    assert core.state.store.bounds(MessageQueue("%STAGE%a", "broker-a", 0)) == (0, 0)


def test_stages_are_stored_in_the_order_of_the_commit_and_their_calls_in_that_of_their_numbers(
    core: CoreHarness,
) -> None:
    core.topic()
    hand_over(core, b"a1", sequence=1)
    hand_over(core, b"b0", stage_id="b")
    hand_over(core, b"a0", sequence=0)
    finish(core, ("b", 1), ("a", 2))
    assert bodies(core) == [b"b0", b"a0", b"a1"]


def test_messages_of_several_topics_and_queues_are_one_transaction(core: CoreHarness) -> None:
    core.topic(queue_count=2)
    core.topic(name="paid", topic_type=TopicType.FIFO)
    hand_over(core, b"1", b"2", b"3")
    hand_over(core, b"4", sequence=1, topic="paid", messageGroup=["g"])
    finish(core, ("a", 2))
    assert [bodies(core, core.queue(at)) for at in (0, 1)] == [[b"1", b"2"], [b"3"]]
    assert bodies(core, core.queue(topic="paid")) == [b"4"]


def test_a_repeated_call_and_a_repeated_commit_change_nothing(core: CoreHarness) -> None:
    core.topic()
    hand_over(core, b"1")
    assert hand_over(core, b"1")
    assert finish(core, ("a", 1))
    assert not finish(core, ("a", 1))
    assert bodies(core) == [b"1"]


def test_a_batch_that_is_committed_is_done_for_ever(core: CoreHarness) -> None:
    core.topic()
    hand_over(core, b"1")
    finish(core, ("a", 1))
    assert not hand_over(core, b"again", stage_id="b")
    assert not finish(core, ("b", 1))
    assert bodies(core) == [b"1"]
    assert not core.state.stages.all()
    assert hand_over(core, b"2", batch=TransactionId("query", 8))
    assert hand_over(core, b"3", stage_id="c", batch=TransactionId("another", 0))


@pytest.mark.parametrize("older", [0, 6])
def test_a_batch_that_is_older_than_the_newest_is_refused_before_it_is_staged(core: CoreHarness, older: int) -> None:
    core.topic()
    finish(core)
    with pytest.raises(InvalidTransactionId, match=f"batch {older} of query is older than batch 7, the newest"):
        hand_over(core, b"again", batch=TransactionId("query", older))
    with pytest.raises(InvalidTransactionId, match=f"batch {older} of query is older than batch 7, the newest"):
        finish(core, ("a", 1), batch=TransactionId("query", older))
    assert not core.state.stages.all()


def test_a_commit_drops_the_attempts_that_it_does_not_name(core: CoreHarness) -> None:
    core.topic()
    hand_over(core, b"winner")
    hand_over(core, b"zombie", stage_id="b")
    hand_over(core, b"older", stage_id="c", batch=TransactionId("query", 3))
    hand_over(core, b"another", stage_id="d", batch=TransactionId("another", 3))
    finish(core, ("a", 1))
    assert bodies(core) == [b"winner"]
    assert list(core.state.stages.all()) == ["d"]


def test_a_write_that_is_no_part_of_a_query_is_committed_once(core: CoreHarness) -> None:
    core.topic()
    hand_over(core, b"1", batch=WRITE)
    assert finish(core, ("a", 1), batch=WRITE)
    assert not finish(core, ("a", 1), batch=WRITE)
    assert finish(core, batch=TransactionId("another", None))
    assert bodies(core) == [b"1"]


def test_an_empty_batch_is_committed_too(core: CoreHarness) -> None:
    assert finish(core, ("never used", 0))
    assert not finish(core)


def test_stages_without_rows_are_not_those_of_a_record_that_counts_rows(core: CoreHarness) -> None:
    with pytest.raises(PreconditionFailed, match="have 0 rows, but its record counts 1 row"):
        finish(core, ("never used", 0), record=RECORD)
    assert core.state.stages.find_newest("query") is None


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ([("a", 1), ("gone", 1)], "stage gone does not exist"),
        ([("a", 2)], "stage a has 1 calls, but its writer made 2"),
        ([("other", 1)], "stage other does not exist"),
    ],
)
def test_a_commit_of_what_is_not_whole_is_refused_and_changes_nothing(
    core: CoreHarness, named: list[tuple[str, int]], sentence: str
) -> None:
    core.topic()
    hand_over(core, b"1")
    hand_over(core, b"2", stage_id="other", batch=TransactionId("query", 8))
    with pytest.raises(PreconditionFailed, match=sentence):
        finish(core, *named)
    assert bodies(core) == []
    assert finish(core, ("a", 1))
    assert bodies(core) == [b"1"]


def test_a_topic_that_is_gone_refuses_the_commit_and_after_it_loses_its_rows_alone(core: CoreHarness) -> None:
    core.topic()
    core.topic(name="paid", topic_type=TopicType.DELAY)
    hand_over(core, b"1")
    hand_over(core, b"2", b"3", sequence=1, topic="paid", deliveryTimestamp=DUE)
    draft = Draft(core.state)
    delete_topic(draft, "paid")
    draft.end_command()
    with pytest.raises(PreconditionFailed, match="topic paid, for which stage a has messages, is deleted"):
        commit_stages(draft, BATCH, [CommittedStage("a", 2)])
    core.run(lambda draft: commit_stages(draft, BATCH, [CommittedStage("a", 2)]))
    core.run(lambda draft: delete_topic(draft, "paid"))
    assert bodies(core) == [b"1"]
    assert store_call(core) == 2
    assert len(core.state.delayed) == 0
    assert not core.state.stages.all()


@pytest.mark.parametrize("is_recreated", [False, True], ids=["changed", "created again"])
def test_rows_for_queues_that_no_longer_exist_go_to_the_other_queues(core: CoreHarness, is_recreated: bool) -> None:
    core.topic(queue_count=4)
    hand_over(core, *(b"%d" % number for number in range(8)))
    if is_recreated:
        core.run(lambda draft: delete_topic(draft, "orders"))
    core.run(lambda draft: put_topic(draft, TopicConfig("orders", 3, 3)))
    finish(core, ("a", 1))
    assert [bodies(core, core.queue(at)) for at in range(3)] == [[b"0", b"1", b"6", b"7"], [b"2", b"3"], [b"4", b"5"]]


def test_what_is_dropped_cannot_be_committed_and_what_is_committed_cannot_be_dropped(core: CoreHarness) -> None:
    core.topic()
    hand_over(core, b"1")
    assert core.run(lambda draft: drop(draft, BATCH)) == 1
    assert core.run(lambda draft: drop(draft, BATCH)) == 0
    with pytest.raises(PreconditionFailed):
        finish(core, ("a", 1))
    hand_over(core, b"2")
    core.run(lambda draft: commit_stages(draft, BATCH, [CommittedStage("a", 1)]))
    assert core.run(lambda draft: drop(draft, BATCH)) == 0
    assert bodies(core) == [b"2"]


def test_a_stage_with_delayed_rows_of_a_commit_takes_no_more_rows(core: CoreHarness) -> None:
    core.topic(topic_type=TopicType.DELAY)
    hand_over(core, b"1", b"2", deliveryTimestamp=DUE)
    core.run(lambda draft: commit_stages(draft, BATCH, [CommittedStage("a", 1)]))
    assert core.run(lambda draft: drop(draft, BATCH)) == 0
    with pytest.raises(PreconditionFailed, match="committed, or belongs to another transaction"):
        hand_over(core, b"late", b"later", sequence=1, batch=TransactionId("query", 8), deliveryTimestamp=DUE)
    finish(core)
    assert len(core.state.delayed) == 2


def test_messages_are_checked_when_they_are_staged(core: CoreHarness) -> None:
    core.topic()
    refused: list[tuple[type[BrokerError], dict[str, object]]] = [
        (TopicNotFound, {"topic": "missing"}),
        (MessagePropertyConflictWithType, {"messageGroup": ["g"]}),
        (BadRequest, {"stage_id": ""}),
        (BadRequest, {"stage_id": "x" * 256}),
        (BadRequest, {"sequence": -1}),
        (BadRequest, {"batch": TransactionId("", 1)}),
        (BadRequest, {"batch": TransactionId("query", -1)}),
    ]
    for error, given in refused:
        with pytest.raises(error):
            hand_over(core, b"x", **given)  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="names a stage twice"):
        finish(core, ("a", 1), ("a", 1))
    assert not core.state.stages.all()


def test_a_delayed_message_waits_after_its_commit(core: CoreHarness) -> None:
    core.topic(topic_type=TopicType.DELAY)
    due = pa.array([9_000_000], pa.timestamp("us", tz="UTC"))
    rows = pa.record_batch({"body": pa.array([b"later"], pa.binary()), "deliveryTimestamp": due})
    core.run(lambda draft: stage(draft, core.sender, BATCH, "a", 0, core.check(rows), core.now_ms))
    assert len(core.state.delayed) == 0
    finish(core, ("a", 1))
    assert bodies(core) == []
    assert len(core.state.delayed) == 1
    far = pa.record_batch({"body": [b"x"], "deliveryTimestamp": pa.array([10**15], pa.timestamp("us", tz="UTC"))})
    with pytest.raises(IllegalDeliveryTime):
        core.run(lambda draft: stage(draft, core.sender, WRITE, "b", 0, core.check(far), core.now_ms))


def test_only_the_delayed_rows_of_a_call_come_later_than_its_commit(core: CoreHarness) -> None:
    core.topic()
    core.topic(name="late", topic_type=TopicType.DELAY)
    rows = pa.record_batch(
        {"body": [b"1", b"2", b"3"], "deliveryTimestamp": pa.array([None, 9_000_000, 8_000_000], DUE.type)}
    )
    parts = [TopicPart("orders", 1), TopicPart("late", 2)]
    core.run(lambda draft: stage(draft, core.sender, BATCH, "a", 0, core.check(rows, "", parts=parts), core.now_ms))
    assert core.state.stages.all()["a"].row_count == 3
    core.run(lambda draft: commit_stages(draft, BATCH, [CommittedStage("a", 1)]))
    assert bodies(core) == [b"1"]
    assert [stage.row_count for stage in core.state.stages.all().values()] == [2]
    assert store_call(core) == 0
    assert len(core.state.delayed) == 2
    assert not core.state.stages.all()


def test_writes_are_remembered_for_a_while_and_queries_for_ever(
    core: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqpull_broker.core.state.stages.WRITES_REMEMBERED_MAX", 2)
    assert WRITES_REMEMBERED_MAX == 10_000
    for number in range(4):
        assert finish(core, batch=TransactionId(f"write {number}", None))
        assert finish(core, batch=TransactionId(f"query {number}", 0))
    assert [core.state.stages.has_committed(TransactionId(f"write {number}", None)) for number in range(4)] == [
        False,
        False,
        True,
        True,
    ]
    assert all(core.state.stages.has_committed(TransactionId(f"query {number}", 0)) for number in range(4))


def test_commands_that_are_drafted_together_see_each_other(core: CoreHarness) -> None:
    core.topic()
    draft = Draft(core.state)

    def hand(sequence: int) -> None:
        rows = pa.record_batch({"body": [b"%d" % sequence]})
        stage(draft, core.sender, BATCH, "a", sequence, core.check(rows), 1)
        draft.end_command()

    for sequence in (0, 1, 1):
        hand(sequence)
    assert commit_stages(draft, BATCH, [CommittedStage("a", 2)]) is Outcome.NEW
    draft.end_command()
    assert commit_stages(draft, BATCH, [CommittedStage("a", 2)]) is Outcome.UNCOMPARED
    draft.end_command()
    for facts in draft.fact_batches:
        core.state.apply(facts)
    assert bodies(core) == [b"0", b"1"]
    assert not core.state.stages.all()


def test_a_snapshot_holds_stages_half_stored_commits_and_what_is_remembered(core: CoreHarness) -> None:
    core.topic()
    core.topic(name="late", topic_type=TopicType.DELAY)
    hand_over(core, b"0", stage_id="b", batch=TransactionId("query", 8))
    for sequence in range(2):
        hand_over(core, b"1", b"2", sequence=sequence, topic="late", deliveryTimestamp=DUE)
    finish(core, batch=WRITE)
    core.run(lambda draft: commit_stages(draft, BATCH, [CommittedStage("a", 2)], RECORD))
    store_call(core)
    restored = BrokerState(ConsumeQueues(), ["broker-a"])
    restored.apply(core.state.to_facts())
    assert restored.stages.to_facts() == core.state.stages.to_facts()
    assert [stage.call_count for stage in restored.stages.all().values()] == [1, 1]
    assert list(restored.stages.list_committing()) == ["a"]
    assert restored.stages.has_committed(BATCH)
    assert restored.stages.find_newest("query") == (7, RECORD)
    assert restored.stages.has_committed(WRITE)
    assert not restored.stages.has_committed(TransactionId("query", 8))


# --- queues that rows name --------------------------------------------------------------------------------------------


def test_a_row_may_name_its_queue(core: CoreHarness) -> None:
    core.topic(queue_count=3)
    numbers = pa.array([2, None, 0, None], pa.int32())
    names = ["broker-a", None, "broker-a", None]
    rows = pa.record_batch({"body": [b"1", b"2", b"3", b"4"], "brokerName": names, "queueId": numbers})
    core.publish(rows)
    assert [bodies(core, core.queue(at)) for at in range(3)] == [[b"2", b"3"], [b"4"], [b"1"]]


@pytest.mark.parametrize(
    ("name", "number"), [("broker-a", 3), ("broker-a", -1), ("broker-b", 0), ("broker-a", None), (None, 0)]
)
def test_a_queue_that_producers_do_not_see_is_refused(core: CoreHarness, name: str | None, number: int | None) -> None:
    core.topic(queue_count=3)
    columns = {"brokerName": pa.array([None, name], pa.string()), "queueId": pa.array([None, number], pa.int32())}
    rows = pa.record_batch({"body": [b"1", b"2"], **columns})
    with pytest.raises(BadRequest, match=f"row 1 names queue {number} of broker {name}"):
        core.publish(rows)


def test_half_of_the_name_of_a_queue_is_refused(core: CoreHarness) -> None:
    core.topic()
    rows = pa.record_batch({"body": [b"1"], "queueId": pa.array([0], pa.int32())})
    with pytest.raises(BadRequest, match="brokerName and queueId together"):
        core.publish(rows)


def test_rows_with_the_same_keys_go_to_the_same_queue(core: CoreHarness) -> None:
    core.topic(queue_count=4)
    keys = [["k1"], ["k2"], None, ["k1"], ["k2", "k3"], None, ["k1"]]
    rows = pa.record_batch(
        {"body": [b"%d" % at for at in range(7)], "keys": pa.array(keys, pa.list_(pa.field("element", pa.string())))}
    )
    core.publish(rows, by_keys=True)
    queues = {at: bodies(core, core.queue(at)) for at in range(4)}
    (mine,) = [queue for queue in queues.values() if b"0" in queue]
    assert [body for body in mine if body in (b"0", b"3", b"6")] == [b"0", b"3", b"6"]
    assert sum(map(len, queues.values())) == 7
