"""Half messages, their checks and their ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rmqpull_broker.core.admin.topics import delete_topic
from rmqpull_broker.core.errors import BrokerError, Forbidden, TopicNotFound
from rmqpull_broker.core.messages.hidden_properties import SYS_FLAG
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.sending.half_messages import (
    Resolution,
    TransactionCheck,
    TransactionEnd,
    check_transactions,
    end_transaction,
    make_half_message,
)
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import RowsStored
from tests.harness.core import CoreHarness

BORN = 10_000
HALF = MessageQueue("RMQ_SYS_TRANS_HALF_TOPIC", "broker-a", 0)
GIVEN_UP = HALF._replace(topic="TRANS_CHECK_MAX_TIME_TOPIC")
WAITED = {"TRAN_MSG": "true", "REAL_TOPIC": "orders", "REAL_QID": "0"}
"""What a half message always keeps."""
COMMIT = TransactionEnd("ID", "payments", Resolution.COMMIT)
ROLLBACK = replace(COMMIT, resolution=Resolution.ROLLBACK)


def send_half(core: CoreHarness, msg_id: str = "ID", **properties: str) -> StoredMessage:
    message = Message(
        b"x",
        msg_id,
        transactional=True,
        born_timestamp_ms=BORN,
        system_properties={"PGROUP": "payments", **properties},
    )

    def command(draft: Draft) -> StoredMessage:
        queue, waiting = make_half_message(draft, core.queue(), message)
        stored = StoredMessage(waiting, draft.find_next_offset(queue), BORN, "store")
        draft.add(RowsStored(queue, (stored,)))
        return stored

    return core.run(command)


def end(core: CoreHarness, how: TransactionEnd, now_ms: int = BORN + 1) -> StoredMessage | None:
    return core.run(lambda draft: end_transaction(draft, how, now_ms, "store"))


def check(core: CoreHarness, now_ms: int) -> list[TransactionCheck]:
    return core.run(lambda draft: check_transactions(draft, now_ms, "store"))


def observed(core: CoreHarness) -> tuple[int, int, int, int]:
    """Messages in the real queue, in the half queue and among those given up; half messages that still wait."""
    queues = (core.queue(), HALF, GIVEN_UP)
    real, halves, given_up = (core.state.bounds(queue).max_offset for queue in queues)
    return real, halves, given_up, len(core.state.halves)


@pytest.mark.parametrize(
    ("resolution", "real", "waiting"),
    [(Resolution.COMMIT, 1, 0), (Resolution.ROLLBACK, 0, 0), (Resolution.UNKNOWN, 0, 1)],
)
def test_what_a_producer_says_decides(core: CoreHarness, resolution: Resolution, real: int, waiting: int) -> None:
    core.topic()
    send_half(core)
    assert observed(core) == (0, 1, 0, 1)
    end(core, replace(COMMIT, resolution=resolution))
    assert observed(core) == (real, 1, 0, waiting)


def test_a_committed_message_is_as_it_waited_and_says_that_it_was_committed(core: CoreHarness) -> None:
    core.topic()
    send_half(core)
    committed = end(core, COMMIT, now_ms=BORN + 77)
    (row,) = core.rows(core.queue())
    assert row == committed
    assert (row.message.msg_id, row.message.system_properties) == (
        "ID",
        {"PGROUP": "payments", "__transactionId__": "ID", "TRAN_MSG": "true", SYS_FLAG: "8"},
    )
    assert (row.message.born_timestamp_ms, row.store_timestamp_ms, row.queue_offset) == (BORN, BORN + 77, 0)


def test_the_newest_half_message_of_an_id_is_meant(core: CoreHarness) -> None:
    core.topic()
    send_half(core)
    send_half(core)
    assert end(core, replace(COMMIT, half_offset=1)) is not None
    assert [waiting.stored_at.queue_offset for waiting in core.state.halves] == [0]


def test_what_belongs_to_a_deleted_topic_can_only_be_rolled_back(core: CoreHarness) -> None:
    core.topic()
    send_half(core)
    core.run(lambda draft: delete_topic(draft, "orders"))
    with pytest.raises(TopicNotFound):
        end(core, COMMIT)
    assert len(core.state.halves) == 1
    end(core, ROLLBACK)
    assert len(core.state.halves) == 0


@pytest.mark.parametrize("resolution", [Resolution.COMMIT, Resolution.ROLLBACK])
def test_an_end_in_the_draft_of_a_check_ends_what_the_check_appended(core: CoreHarness, resolution: Resolution) -> None:
    core.topic()
    send_half(core)
    draft = Draft(core.state)
    for now_ms in (BORN + 6_000, BORN + 6_001):
        check_transactions(draft, now_ms, "store")
        draft.end_command()
    end_transaction(draft, replace(COMMIT, resolution=resolution), BORN + 6_002, "store")
    draft.end_command()
    with pytest.raises(BrokerError, match="Find prepared transaction message failed"):
        end_transaction(draft, COMMIT, BORN + 6_003, "store")
    for facts in draft.fact_batches:
        core.state.apply(facts)
    assert observed(core) == (1 if resolution is Resolution.COMMIT else 0, 2, 0, 0)


@pytest.mark.parametrize(
    ("how", "now_ms", "sentence"),
    [
        (replace(COMMIT, msg_id="other"), BORN, "Find prepared transaction message failed"),
        (replace(COMMIT, producer_group="other"), BORN, "The producer group wrong"),
        (replace(ROLLBACK, producer_group="other"), BORN, "The producer group wrong"),
        (replace(COMMIT, half_offset=1), BORN, "The transaction state table offset wrong"),
        (COMMIT, BORN + 20_001, "20001 ms old, past its immunity of 20 s"),
        (ROLLBACK, BORN + 20_001, "past its immunity"),
        (replace(COMMIT, producer_group="other"), BORN + 20_001, "past its immunity"),
    ],
)
def test_an_end_is_refused(core: CoreHarness, how: TransactionEnd, now_ms: int, sentence: str) -> None:
    core.topic()
    send_half(core, CHECK_IMMUNITY_TIME_IN_SECONDS="20")
    with pytest.raises(BrokerError, match=sentence):
        end(core, how, now_ms)
    assert observed(core) == (0, 1, 0, 1)


def test_a_check_is_answered_at_any_age(core: CoreHarness) -> None:
    core.topic()
    send_half(core, CHECK_IMMUNITY_TIME_IN_SECONDS="20")
    assert end(core, replace(COMMIT, from_check=True), BORN + 99_999) is not None


@pytest.mark.proves("EndTransaction")
def test_without_an_immunity_of_its_own_a_half_message_is_ended_at_any_age(core: CoreHarness) -> None:
    core.topic()
    send_half(core)
    assert end(core, COMMIT, BORN + 99_999_999) is not None


@pytest.mark.parametrize("resolution", [COMMIT, ROLLBACK])
@pytest.mark.proves("The end of a half message")
def test_no_op_message_says_what_became_of_it(core: CoreHarness, resolution: TransactionEnd) -> None:
    core.topic()
    send_half(core)
    end(core, resolution)
    assert len(core.state.halves) == 0
    assert core.state.bounds(HALF._replace(topic="RMQ_SYS_TRANS_OP_HALF_TOPIC")) == (0, 0)


def test_a_second_end_finds_nothing(core: CoreHarness) -> None:
    core.topic()
    send_half(core)
    draft = Draft(core.state)
    end_transaction(draft, ROLLBACK, BORN, "store")
    draft.end_command()
    with pytest.raises(BrokerError, match="Find prepared"):
        end_transaction(draft, COMMIT, BORN, "store")
    end(core, ROLLBACK)
    with pytest.raises(BrokerError, match="Find prepared"):
        end(core, COMMIT)


def test_half_messages_can_be_refused(core: CoreHarness) -> None:
    core.state.properties = BrokerProperties(reject_transaction_message=True)
    core.topic()
    with pytest.raises(Forbidden, match="sending transaction message is forbidden"):
        send_half(core)


# --- checks ----------------------------------------------------------------------------------------------------------


def test_a_young_half_message_is_not_checked(core: CoreHarness) -> None:
    core.topic()
    send_half(core)
    assert check(core, BORN + 5_999) == []
    assert observed(core) == (0, 1, 0, 1)


def test_an_old_one_is_appended_again_and_its_producer_asked(core: CoreHarness) -> None:
    core.topic()
    send_half(core)
    (asked,) = check(core, BORN + 6_000)
    assert (asked.producer_group, asked.queue, asked.stored.queue_offset) == ("payments", core.queue(), 1)
    assert asked.stored.message.system_properties == {
        "PGROUP": "payments",
        "__transactionId__": "ID",
        "TRANSACTION_CHECK_TIMES": "1",
        **WAITED,
    }
    assert observed(core) == (0, 2, 0, 1)
    assert end(core, replace(COMMIT, from_check=True, half_offset=1)) is not None
    assert observed(core) == (1, 2, 0, 0)


def test_after_fifteen_checks_it_is_given_up(core: CoreHarness) -> None:
    core.topic()
    send_half(core)
    asked = [len(check(core, BORN + 30_000 * number)) for number in range(1, 18)]
    assert asked == [1] * 15 + [0, 0]
    assert observed(core) == (0, 16, 1, 0)


def test_one_older_than_what_is_kept_is_given_up_unasked(core: CoreHarness) -> None:
    core.topic()
    send_half(core)
    assert check(core, BORN + 72 * 3_600_000 + 1) == []
    assert observed(core) == (0, 1, 1, 0)


def test_one_command_checks_so_many_and_leaves_the_rest(core: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqpull_broker.core.sending.half_messages.CHECKS_MAX", 2)
    core.topic()
    for number in range(3):
        send_half(core, str(number))
    assert [check.stored.message.msg_id for check in check(core, BORN + 6_000)] == ["0", "1"]
