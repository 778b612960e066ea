"""Which commits of a query's batch are new, done already, or refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rmqpull_broker.core.errors import BadRequest, InvalidTransactionId, PreconditionFailed
from rmqpull_broker.core.sending.commits import Outcome, check_record, count_missing, judge, refuse_older
from rmqpull_broker.core.sending.stage_commands import CommittedStage, stage
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.stage_facts import CommitRecord, TransactionId
from rmqpull_broker.core.state.stages import CommittedTransaction
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues
from tests.harness.core import CoreHarness, commit_stages

KNOWN = CommitRecord(b"plan", "orders", 2, b"digest")
NEWEST = CommittedTransaction(7, KNOWN)


def described(
    plan: bytes = b"plan", destination: str = "orders", rows: int = 2, digest: bytes = b"digest"
) -> CommitRecord:
    return CommitRecord(plan, destination, rows, digest)


@pytest.mark.parametrize(
    ("number", "record", "newest", "outcome"),
    [
        (0, KNOWN, None, Outcome.NEW),
        (0, None, None, Outcome.NEW),
        (8, KNOWN, NEWEST, Outcome.NEW),
        (9, None, NEWEST, Outcome.NEW),
        # Written by a client, or kept by a broker, that knew no records.
        (7, None, NEWEST, Outcome.UNCOMPARED),
        (7, KNOWN, CommittedTransaction(7, None), Outcome.UNCOMPARED),
        (7, None, CommittedTransaction(7, None), Outcome.UNCOMPARED),
        # The same plan: whatever rows there are now.
        (7, KNOWN, NEWEST, Outcome.DONE),
        (7, described(rows=3), NEWEST, Outcome.DONE),
        (7, described(digest=b"another"), NEWEST, Outcome.DONE),
        # Another plan, or one that is not known: the same rows.
        (7, described(plan=b"another"), NEWEST, Outcome.DONE),
        (7, described(plan=b""), NEWEST, Outcome.DONE),
        (7, KNOWN, CommittedTransaction(7, described(plan=b"")), Outcome.DONE),
        (7, described(plan=b""), CommittedTransaction(7, described(plan=b"")), Outcome.DONE),
    ],
)
def test_what_a_commit_comes_to(
    number: int, record: CommitRecord | None, newest: CommittedTransaction | None, outcome: Outcome
) -> None:
    assert judge(TransactionId("query", number), record, newest) is outcome


@pytest.mark.parametrize(
    ("number", "record", "known", "reason"),
    [
        (
            6,
            KNOWN,
            KNOWN,
            "batch 6 of query is older than batch 7, the newest one that was committed, with 2 rows for o",
        ),
        (0, None, None, "batch 0 of query is older than batch 7, the newest one that was committed"),
        (
            7,
            described(destination="others"),
            KNOWN,
            "with 2 rows for orders, and now has 2 rows for others; the topics",
        ),
        (7, described(destination="", rows=0), KNOWN, "now has 0 rows for no topic; the topics differ"),
        (
            7,
            described(b"another", rows=4),
            KNOWN,
            "4 rows for orders; it was planned again, and the number of rows",
        ),
        (7, described(b"another", digest=b"another"), KNOWN, "it was planned again, and the rows differ"),
        (7, described(b"", digest=b"another"), KNOWN, "the plan of the batch is not known, and the rows differ"),
        (7, described(rows=1), described(b""), "the plan of the batch is not known, and the number of rows differs"),
        # Two plans that are not known are not the same.
        (7, described(b"", digest=b"another"), described(b""), "the plan of the batch is not known"),
    ],
)
def test_what_is_refused(number: int, record: CommitRecord | None, known: CommitRecord | None, reason: str) -> None:
    with pytest.raises(InvalidTransactionId) as refusal:
        judge(TransactionId("query", number), record, CommittedTransaction(7, known))
    assert reason in str(refusal.value)


@pytest.mark.parametrize(
    ("number", "newest", "missing_count"),
    [
        (0, None, 0),
        (5, None, 5),
        (8, NEWEST, 0),
        (10, NEWEST, 2),
        (7, NEWEST, 0),  # again
        (6, NEWEST, 0),  # refused
        (None, None, 0),  # a write without a query
    ],
)
def test_which_numbers_are_missing(number: int | None, newest: CommittedTransaction | None, missing_count: int) -> None:
    assert count_missing(TransactionId("query", number), newest) == missing_count


def test_what_one_record_may_take_is_limited() -> None:
    check_record(described(bytes(64), "x" * 1_024, 0, bytes(64)))
    for record, reason in (
        (described(bytes(65)), "the plan of the record has 65 bytes"),
        (described(digest=bytes(65)), "the digest of the record has 65 bytes"),
        (described(destination="x" * 1_025), "has 1025 characters"),
        (described(rows=-1), "row_count -1"),
    ):
        with pytest.raises(BadRequest, match=reason):
            check_record(record)


# --- on a broker's state ----------------------------------------------------------------------------------------------

BATCH = TransactionId("query", 7)


def hand_over(core: CoreHarness, stage_id: str, sequence: int = 0) -> None:
    checked = core.check(pa.record_batch({"body": [b"1"]}))
    core.run(lambda draft: stage(draft, core.sender, BATCH, stage_id, sequence, checked, 1))


@pytest.fixture
def staged(core: CoreHarness) -> CoreHarness:
    """Two attempts, a and b, have staged a call each."""
    core.topic()
    hand_over(core, "a")
    hand_over(core, "b")
    return core


def test_another_batch_under_a_committed_number_is_refused_and_changes_nothing(staged: CoreHarness) -> None:
    assert staged.run(lambda draft: commit_stages(draft, BATCH, [CommittedStage("a", 1)], KNOWN)) is Outcome.NEW
    another = described(b"another", rows=3)
    with pytest.raises(InvalidTransactionId, match="was committed with 2 rows for orders"):
        staged.run(lambda draft: commit_stages(draft, BATCH, [CommittedStage("b", 1)], another))
    again = staged.run(lambda draft: commit_stages(draft, BATCH, [], described(b"another")))
    assert again is Outcome.DONE
    restored = BrokerState(ConsumeQueues(), ["broker-a"])
    restored.apply(staged.state.to_facts())
    assert restored.stages.find_newest("query") == NEWEST
    assert len(staged.rows(staged.queue())) == 1


def test_a_gap_is_refused_if_the_caller_wants_that_and_then_changes_nothing(staged: CoreHarness) -> None:
    def attempt(refuse_gap: bool) -> Outcome:
        stages = [CommittedStage("a", 1)]
        return staged.run(lambda draft: commit_stages(draft, BATCH, stages, KNOWN, refuse_gap=refuse_gap))

    assert attempt(refuse_gap=True) is Outcome.GAP
    assert list(staged.state.stages.all()) == ["a", "b"]
    assert attempt(refuse_gap=False) is Outcome.NEW
    assert attempt(refuse_gap=True) is Outcome.DONE
    assert not staged.state.stages.all()


@pytest.mark.parametrize(
    ("named", "record", "row_count", "seen"),
    [
        # A writer that says how many rows its stages must have.
        (["a", "b"], described(rows=2), 2, None),
        (["a", "b"], described(rows=5), 2, None),  # three rows were skipped
        ([], described(rows=3), 0, None),  # all rows were skipped
        ([], described(rows=0), 0, None),
        (["a", "b"], None, 2, None),
        ([], described(rows=2), 2, "have 0 rows, but its writers staged 2 rows: rows would be lost"),
        (["a"], described(rows=2), 2, "have 1 row, but its writers staged 2 rows: rows would be lost"),
        (["a"], None, 2, "have 1 row, but its writers staged 2 rows: rows would be lost"),
        (["a", "b"], described(rows=1), 1, "have 2 rows, but its writers staged 1 row: rows would be lost"),
        # A writer that says it by its record alone, which counts rows that were skipped too.
        (["a", "b"], described(rows=2), None, None),
        (["a"], described(rows=2), None, None),
        ([], described(rows=0), None, None),
        ([], None, None, None),
        ([], described(rows=2), None, "have 0 rows, but its record counts 2 rows: rows would be lost"),
    ],
)
def test_a_commit_needs_the_rows_that_its_writers_have_counted(
    staged: CoreHarness, named: list[str], record: CommitRecord | None, row_count: int | None, seen: str | None
) -> None:
    """Otherwise it would count as done without them. If it was refused, the next attempt is new; then it is done."""

    def finish(*stage_ids: str, staged_count: int | None) -> Outcome:
        stages = [CommittedStage(stage_id, 1) for stage_id in stage_ids]
        return staged.run(lambda draft: commit_stages(draft, BATCH, stages, record, staged_count))

    if seen is None:
        assert finish(*named, staged_count=row_count) is Outcome.NEW
    else:
        with pytest.raises(PreconditionFailed) as refusal:
            finish(*named, staged_count=row_count)
        assert f"the stages that the commit of batch 7 of query names {seen}" in str(refusal.value)
        assert list(staged.state.stages.all()) == ["a", "b"]
        assert finish("a", "b", staged_count=2) is Outcome.NEW
    again = Outcome.UNCOMPARED if record is None else Outcome.DONE
    assert [finish(staged_count=row_count), finish("a", "b", staged_count=2)] == [again, again]


def test_of_two_batches_of_one_number_the_first_commit_wins_also_within_one_draft(staged: CoreHarness) -> None:
    draft = Draft(staged.state)
    assert commit_stages(draft, BATCH, [CommittedStage("a", 1)], KNOWN) is Outcome.NEW
    draft.end_command()
    with pytest.raises(InvalidTransactionId, match="the topics differ"):
        commit_stages(draft, BATCH, [CommittedStage("b", 1)], described(destination="others"))
    draft.drop_command()
    assert commit_stages(draft, BATCH, [CommittedStage("b", 1)], KNOWN) is Outcome.DONE


def test_the_rows_of_a_commit_become_readable_in_one_step(core: CoreHarness) -> None:
    core.topic()
    for sequence in range(3):
        hand_over(core, "a", sequence)
    assert core.rows(core.queue()) == []
    core.run(lambda draft: commit_stages(draft, BATCH, [CommittedStage("a", 3)], KNOWN))
    assert len(core.rows(core.queue())) == 3


def test_a_write_without_a_query_is_never_too_old() -> None:
    refuse_older(TransactionId("writer", None), NEWEST)
