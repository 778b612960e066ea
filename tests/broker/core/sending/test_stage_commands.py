"""Messages that are handed over in stages and committed together, or never seen by anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from rmqpull_broker.core.sending.sender import Published
from rmqpull_broker.core.sending.stage_commands import CommittedStage, commit, drop, stage, store_next
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import CommitRecord, TransactionId
from rmqpull_broker.core.state.stages import WRITES_REMEMBERED_MAX
from rmqpull_broker.store.queues.queues import ConsumeQueues

if TYPE_CHECKING:
    from tests.broker.core.conftest import Desk

BATCH = TransactionId("query", 7)
WRITE = TransactionId("write", None)
RECORD = CommitRecord(b"plan", "orders", 1, b"digest")


def hand_over(
    desk: Desk,
    *bodies: bytes,
    stage_id: str = "a",
    sequence: int = 0,
    batch: TransactionId = BATCH,
    topic: str = "orders",
    **texts: list[str | None] | pa.Array,
) -> bool:
    """Stages messages; ``texts`` are further columns."""
    rows = pa.record_batch({"body": pa.array(bodies, pa.binary()), **texts})
    published = Published(topic, rows, "client")
    return desk.run(lambda draft: stage(draft, desk.sender, batch, stage_id, sequence, published, desk.now_ms))


def finish(
    desk: Desk, *named: tuple[str, int], batch: TransactionId = BATCH, record: CommitRecord | None = None
) -> bool:
    """Commits, and stores everything that this makes readable. Whether it was new."""
    outcome = desk.run(lambda draft: commit(draft, batch, [CommittedStage(*entry) for entry in named], record))
    for stage_id in list(desk.state.stages.committing()):
        while desk.state.stages.find(stage_id) is not None:
            store_call(desk, stage_id)
    return outcome is Outcome.NEW


def store_call(desk: Desk, stage_id: str = "a") -> int:
    return desk.run(lambda draft: store_next(draft, desk.sender, stage_id, desk.now_ms))


def bodies(desk: Desk, queue: MessageQueue | None = None) -> list[bytes]:
    return [row.message.body for row in desk.rows(queue or desk.queue())]


def test_what_is_staged_is_seen_by_nobody_until_it_is_committed(desk: Desk) -> None:
    desk.topic()
    assert hand_over(desk, b"1", b"2")
    assert bodies(desk) == []
    assert list(desk.state.topics) == ["orders"]
    desk.now_ms = 5_000
    assert finish(desk, ("a", 1))
    assert [(row.message.body, row.queue_offset, row.store_timestamp_ms) for row in desk.rows(desk.queue())] == [
        (b"1", 0, 5_000),
        (b"2", 1, 5_000),
    ]
    assert not desk.state.stages.all()
    assert desk.state.store.bounds(MessageQueue("%STAGE%a", "broker-a", 0)) == (0, 0)


def test_stages_are_stored_in_the_order_of_the_commit_and_their_calls_in_that_of_their_numbers(desk: Desk) -> None:
    desk.topic()
    hand_over(desk, b"a1", sequence=1)
    hand_over(desk, b"b0", stage_id="b")
    hand_over(desk, b"a0", sequence=0)
    finish(desk, ("b", 1), ("a", 2))
    assert bodies(desk) == [b"b0", b"a0", b"a1"]


def test_messages_of_several_topics_and_queues_are_one_transaction(desk: Desk) -> None:
    desk.topic(queue_count=2)
    desk.topic(name="paid", topic_type=TopicType.FIFO)
    hand_over(desk, b"1", b"2", b"3")
    hand_over(desk, b"4", sequence=1, topic="paid", messageGroup=["g"])
    finish(desk, ("a", 2))
    assert [bodies(desk, desk.queue(at)) for at in (0, 1)] == [[b"1", b"3"], [b"2"]]
    assert bodies(desk, desk.queue(topic="paid")) == [b"4"]


def test_a_repeated_call_and_a_repeated_commit_change_nothing(desk: Desk) -> None:
    desk.topic()
    hand_over(desk, b"1")
    assert hand_over(desk, b"1")
    assert finish(desk, ("a", 1))
    assert not finish(desk, ("a", 1))
    assert bodies(desk) == [b"1"]


def test_a_batch_that_is_committed_is_done_for_ever(desk: Desk) -> None:
    desk.topic()
    hand_over(desk, b"1")
    finish(desk, ("a", 1))
    assert not hand_over(desk, b"again", stage_id="b")
    assert not finish(desk, ("b", 1))
    assert bodies(desk) == [b"1"]
    assert not desk.state.stages.all()
    assert hand_over(desk, b"2", batch=TransactionId("query", 8))
    assert hand_over(desk, b"3", stage_id="c", batch=TransactionId("another", 0))


@pytest.mark.parametrize("older", [0, 6])
def test_a_batch_that_is_older_than_the_newest_is_refused_before_it_is_staged(desk: Desk, older: int) -> None:
    desk.topic()
    finish(desk)
    with pytest.raises(InvalidTransactionId, match=f"batch {older} of query is older than batch 7, the newest"):
        hand_over(desk, b"again", batch=TransactionId("query", older))
    with pytest.raises(InvalidTransactionId, match=f"batch {older} of query is older than batch 7, the newest"):
        finish(desk, ("a", 1), batch=TransactionId("query", older))
    assert not desk.state.stages.all()


def test_a_commit_drops_the_attempts_that_it_does_not_name(desk: Desk) -> None:
    desk.topic()
    hand_over(desk, b"winner")
    hand_over(desk, b"zombie", stage_id="b")
    hand_over(desk, b"older", stage_id="c", batch=TransactionId("query", 3))
    hand_over(desk, b"another", stage_id="d", batch=TransactionId("another", 3))
    finish(desk, ("a", 1))
    assert bodies(desk) == [b"winner"]
    assert list(desk.state.stages.all()) == ["d"]


def test_a_write_that_is_no_part_of_a_query_is_committed_once(desk: Desk) -> None:
    desk.topic()
    hand_over(desk, b"1", batch=WRITE)
    assert finish(desk, ("a", 1), batch=WRITE)
    assert not finish(desk, ("a", 1), batch=WRITE)
    assert finish(desk, batch=TransactionId("another", None))
    assert bodies(desk) == [b"1"]


def test_an_empty_batch_is_committed_too(desk: Desk) -> None:
    assert finish(desk, ("never used", 0))
    assert not finish(desk)


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ([("a", 1), ("gone", 1)], "stage gone is not there"),
        ([("a", 2)], "stage a has 1 calls, and its writer made 2"),
        ([("other", 1)], "stage other is not there"),
    ],
)
def test_a_commit_of_what_is_not_whole_is_refused_and_changes_nothing(
    desk: Desk, named: list[tuple[str, int]], sentence: str
) -> None:
    desk.topic()
    hand_over(desk, b"1")
    hand_over(desk, b"2", stage_id="other", batch=TransactionId("query", 8))
    with pytest.raises(PreconditionFailed, match=sentence):
        finish(desk, *named)
    assert bodies(desk) == []
    assert finish(desk, ("a", 1))
    assert bodies(desk) == [b"1"]


def test_a_topic_that_is_gone_refuses_the_commit_and_after_it_loses_its_rows_alone(desk: Desk) -> None:
    desk.topic()
    desk.topic(name="paid")
    hand_over(desk, b"1")
    hand_over(desk, b"2", b"3", sequence=1, topic="paid")
    draft = Draft(desk.state)
    delete_topic(draft, "paid")
    draft.end_command()
    with pytest.raises(PreconditionFailed, match="topic paid, for which stage a holds messages, is gone"):
        commit(draft, BATCH, [CommittedStage("a", 2)])
    desk.run(lambda draft: commit(draft, BATCH, [CommittedStage("a", 2)]))
    desk.run(lambda draft: delete_topic(draft, "paid"))
    assert [store_call(desk) for _ in range(2)] == [0, 2]
    assert bodies(desk) == [b"1"]
    assert not desk.state.stages.all()


@pytest.mark.parametrize("anew", [False, True], ids=["changed", "made anew"])
def test_rows_for_queues_that_a_topic_no_longer_has_go_to_those_that_it_has(desk: Desk, anew: bool) -> None:
    desk.topic(queue_count=4)
    hand_over(desk, *(b"%d" % number for number in range(8)))
    desk.run(lambda draft: commit(draft, BATCH, [CommittedStage("a", 1)]))
    if anew:
        desk.run(lambda draft: delete_topic(draft, "orders"))
    desk.run(lambda draft: put_topic(draft, TopicConfig("orders", 3, 3)))
    assert store_call(desk) == 0
    assert [bodies(desk, desk.queue(at)) for at in range(3)] == [[b"0", b"4", b"3", b"7"], [b"1", b"5"], [b"2", b"6"]]


def test_what_is_dropped_cannot_be_committed_and_what_is_committed_cannot_be_dropped(desk: Desk) -> None:
    desk.topic()
    hand_over(desk, b"1")
    assert desk.run(lambda draft: drop(draft, BATCH)) == 1
    assert desk.run(lambda draft: drop(draft, BATCH)) == 0
    with pytest.raises(PreconditionFailed):
        finish(desk, ("a", 1))
    hand_over(desk, b"2")
    desk.run(lambda draft: commit(draft, BATCH, [CommittedStage("a", 1)]))
    assert desk.run(lambda draft: drop(draft, BATCH)) == 0
    with pytest.raises(PreconditionFailed, match="of another batch or committed"):
        hand_over(desk, b"late", sequence=1, batch=TransactionId("query", 8))
    finish(desk)
    assert bodies(desk) == [b"2"]


def test_messages_are_checked_when_they_are_staged(desk: Desk) -> None:
    desk.topic()
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
            hand_over(desk, b"x", **given)  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="named twice"):
        finish(desk, ("a", 1), ("a", 1))
    assert not desk.state.stages.all()


def test_a_delayed_message_waits_after_its_commit(desk: Desk) -> None:
    desk.topic(topic_type=TopicType.DELAY)
    due = pa.array([9_000_000], pa.timestamp("us", tz="UTC"))
    rows = pa.record_batch({"body": pa.array([b"later"], pa.binary()), "deliveryTimestamp": due})
    desk.run(lambda draft: stage(draft, desk.sender, BATCH, "a", 0, Published("orders", rows, "c"), desk.now_ms))
    assert len(desk.state.delayed) == 0
    finish(desk, ("a", 1))
    assert bodies(desk) == []
    assert len(desk.state.delayed) == 1
    far = pa.record_batch({"body": [b"x"], "deliveryTimestamp": pa.array([10**15], pa.timestamp("us", tz="UTC"))})
    with pytest.raises(IllegalDeliveryTime):
        desk.run(lambda draft: stage(draft, desk.sender, WRITE, "b", 0, Published("orders", far, "c"), desk.now_ms))


def test_writes_are_remembered_for_a_while_and_queries_for_ever(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqpull_broker.core.state.stages.WRITES_REMEMBERED_MAX", 2)
    assert WRITES_REMEMBERED_MAX == 10_000
    for number in range(4):
        assert finish(desk, batch=TransactionId(f"write {number}", None))
        assert finish(desk, batch=TransactionId(f"query {number}", 0))
    assert [desk.state.stages.has_committed(TransactionId(f"write {number}", None)) for number in range(4)] == [
        False,
        False,
        True,
        True,
    ]
    assert all(desk.state.stages.has_committed(TransactionId(f"query {number}", 0)) for number in range(4))


def test_commands_that_are_drafted_together_see_each_other(desk: Desk) -> None:
    desk.topic()
    draft = Draft(desk.state)

    def hand(sequence: int) -> None:
        rows = pa.record_batch({"body": [b"%d" % sequence]})
        stage(draft, desk.sender, BATCH, "a", sequence, Published("orders", rows, "c"), 1)
        draft.end_command()

    for sequence in (0, 1, 1):
        hand(sequence)
    assert commit(draft, BATCH, [CommittedStage("a", 2)]) is Outcome.NEW
    draft.end_command()
    assert commit(draft, BATCH, [CommittedStage("a", 2)]) is Outcome.UNCOMPARED
    draft.end_command()
    for facts in draft.fact_batches:
        desk.state.apply(facts)
    draft = Draft(desk.state)
    for _ in range(2):
        store_next(draft, desk.sender, "a", 1)
        draft.end_command()
    for facts in draft.fact_batches:
        desk.state.apply(facts)
    assert bodies(desk) == [b"0", b"1"]
    assert not desk.state.stages.all()


def test_a_snapshot_holds_stages_half_stored_commits_and_what_is_remembered(desk: Desk) -> None:
    desk.topic()
    hand_over(desk, b"0", stage_id="b", batch=TransactionId("query", 8))
    hand_over(desk, b"1")
    hand_over(desk, b"2", sequence=1)
    finish(desk, batch=WRITE)
    desk.run(lambda draft: commit(draft, BATCH, [CommittedStage("a", 2)], RECORD))
    store_call(desk)
    restored = BrokerState(ConsumeQueues(), ["broker-a"])
    restored.apply(desk.state.to_facts())
    assert restored.stages.to_facts() == desk.state.stages.to_facts()
    assert [stage.call_count for stage in restored.stages.all().values()] == [1, 1]
    assert list(restored.stages.committing()) == ["a"]
    assert restored.stages.has_committed(BATCH)
    assert restored.stages.newest("query") == (7, RECORD)
    assert restored.stages.has_committed(WRITE)
    assert not restored.stages.has_committed(TransactionId("query", 8))


# --- queues that rows name --------------------------------------------------------------------------------------------


def test_a_row_may_name_its_queue(desk: Desk) -> None:
    desk.topic(queue_count=3)
    numbers = pa.array([2, None, 0, None], pa.int32())
    names = ["broker-a", None, "broker-a", None]
    rows = pa.record_batch({"body": [b"1", b"2", b"3", b"4"], "brokerName": names, "queueId": numbers})
    desk.run(lambda draft: desk.sender.publish(draft, Published("orders", rows, "c"), 1))
    assert [bodies(desk, desk.queue(at)) for at in range(3)] == [[b"2", b"3"], [b"4"], [b"1"]]


@pytest.mark.parametrize(
    ("name", "number"), [("broker-a", 3), ("broker-a", -1), ("broker-b", 0), ("broker-a", None), (None, 0)]
)
def test_a_queue_that_producers_do_not_see_is_refused(desk: Desk, name: str | None, number: int | None) -> None:
    desk.topic(queue_count=3)
    columns = {"brokerName": pa.array([None, name], pa.string()), "queueId": pa.array([None, number], pa.int32())}
    rows = pa.record_batch({"body": [b"1", b"2"], **columns})
    with pytest.raises(BadRequest, match=f"row 1 is meant for queue {number} of broker {name}"):
        desk.run(lambda draft: desk.sender.publish(draft, Published("orders", rows, "c"), 1))


def test_half_of_the_name_of_a_queue_is_refused(desk: Desk) -> None:
    desk.topic()
    rows = pa.record_batch({"body": [b"1"], "queueId": pa.array([0], pa.int32())})
    with pytest.raises(BadRequest, match="brokerName and queueId together"):
        desk.run(lambda draft: desk.sender.publish(draft, Published("orders", rows, "c"), 1))


def test_rows_with_the_same_keys_go_to_the_same_queue(desk: Desk) -> None:
    desk.topic(queue_count=4)
    keys = [["k1"], ["k2"], None, ["k1"], ["k2", "k3"], None, ["k1"]]
    rows = pa.record_batch(
        {"body": [b"%d" % at for at in range(7)], "keys": pa.array(keys, pa.list_(pa.field("element", pa.string())))}
    )
    desk.run(lambda draft: desk.sender.publish(draft, Published("orders", rows, "c", by_keys=True), 1))
    queues = {at: bodies(desk, desk.queue(at)) for at in range(4)}
    (mine,) = [queue for queue in queues.values() if b"0" in queue]
    assert [body for body in mine if body in (b"0", b"3", b"6")] == [b"0", b"3", b"6"]
    assert sum(map(len, queues.values())) == 7
