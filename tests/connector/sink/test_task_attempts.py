"""Several attempts of one partition against a broker: speculation, retries and zombies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.commit_record import make_record
from pyspark_rmqpull.sink.task import SinkTask, TaskCommit
from pyspark_rmqpull.sink.writers import RmqpullStreamWriter
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_client.errors import RequestRefused
from rmqpull_client.transports.choice import get_producer
from rmqpull_client.transports.port import Producer, TransactionId

WAIT_S = 60
BATCH, NEXT = TransactionId("sink/query", 7), TransactionId("sink/query", 8)


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker({"orders": 1}) as broker:
        yield broker


@pytest.fixture
def options(broker: RunningBroker) -> SinkOptions:
    return SinkOptions.from_options({"endpoints": broker.endpoints, "topic": "orders"})


@pytest.fixture
def producer(options: SinkOptions) -> Producer:
    return get_producer(options.connection)


def rows(*bodies: bytes) -> pa.RecordBatch:
    return pa.record_batch({"body": pa.array(bodies, pa.binary())})


def attempt(producer: Producer, options: SinkOptions, number: int, transaction: TransactionId = BATCH) -> SinkTask:
    """An attempt of partition 0."""
    return SinkTask(producer, options, transaction, 0, f"0-{number}-{transaction.batch_id}")


def commit(producer: Producer, done: TaskCommit) -> bool:
    assert done.stage_id is not None
    assert done.written is not None
    staged, record = [(done.stage_id, done.call_count)], make_record([done.written], b"")
    return not producer.commit_stages(done.transaction, staged, 0, record, done.row_count).was_committed


def bodies(broker: RunningBroker) -> list[bytes]:
    return [row.message.body for row in broker.messages("orders")]


def stages(broker: RunningBroker) -> list[str]:
    return broker.look(lambda state: list(state.stages.all()))


@pytest.mark.parametrize("winner", [0, 1])
def test_of_two_attempts_only_the_one_that_the_commit_names_is_written(
    broker: RunningBroker, options: SinkOptions, producer: Producer, winner: int
) -> None:
    done = [attempt(producer, options, number).run(iter([rows(b"1", b"2"), rows(b"3")])) for number in range(2)]
    assert len(stages(broker)) == 2
    assert commit(producer, done[winner])
    assert bodies(broker) == [b"1", b"2", b"3"]
    assert stages(broker) == []
    assert not commit(producer, done[1 - winner])
    assert bodies(broker) == [b"1", b"2", b"3"]


def test_the_record_has_the_rows_of_the_attempts_that_won(
    broker: RunningBroker, options: SinkOptions, producer: Producer
) -> None:
    """With speculation, where rows differ from attempt to attempt."""
    slow, fast = (attempt(producer, options, number).run(iter([rows(b"%d" % number)])) for number in range(2))
    assert commit(producer, fast)
    assert not commit(producer, attempt(producer, options, 2).run(iter([rows(b"1")])))
    with pytest.raises(RequestRefused, match="the rows differ"):
        commit(producer, slow)
    assert bodies(broker) == [b"1"]


def test_of_two_copies_of_a_checkpoint_the_first_to_commit_wins(
    broker: RunningBroker, options: SinkOptions, producer: Producer
) -> None:
    """The other is refused, whether its tasks staged their rows before that commit or learned of it."""
    one, other = (attempt(producer, options, number) for number in range(2))
    done = [one.run(iter([rows(b"A1", b"A2")])), other.run(iter([rows(b"A1", b"A2"), rows(b"B")]))]
    assert commit(producer, done[0])
    late = attempt(producer, options, 2).run(iter([rows(b"A2", b"B"), rows(b"A1")]))
    for of_other_copy in (done[1], late):
        with pytest.raises(RequestRefused, match="with 2 rows for orders, and now has 3 rows for orders"):
            commit(producer, of_other_copy)
    assert not commit(producer, attempt(producer, options, 3).run(iter([rows(b"A2"), rows(b"A1")])))
    assert bodies(broker) == [b"A1", b"A2"]
    assert stages(broker) == []


def test_a_zombie_that_still_writes_after_the_commit_adds_nothing(
    broker: RunningBroker, options: SinkOptions, producer: Producer
) -> None:
    """It adds nothing to its own micro-batch or to the next, and leaves no stage behind."""
    may_continue = threading.Event()
    has_started = threading.Event()
    zombie_done: list[TaskCommit] = []

    def slowly() -> Iterator[pa.RecordBatch]:
        yield rows(b"1", b"2")
        has_started.set()
        assert may_continue.wait(WAIT_S)
        yield rows(b"3")

    zombie = attempt(producer, options, 0)
    thread = threading.Thread(target=lambda: zombie_done.append(zombie.run(slowly())))
    thread.start()
    assert has_started.wait(WAIT_S)
    assert commit(producer, attempt(producer, options, 1).run(iter([rows(b"1", b"2", b"3")])))
    following = attempt(producer, options, 0, NEXT).run(iter([rows(b"4")]))
    may_continue.set()
    thread.join(WAIT_S)
    assert not commit(producer, zombie_done[0])
    assert commit(producer, following)
    assert bodies(broker) == [b"1", b"2", b"3", b"4"]
    assert stages(broker) == []


def test_a_driver_that_was_replaced_cannot_commit_its_micro_batch_again(
    broker: RunningBroker, options: SinkOptions, producer: Producer
) -> None:
    old, new = (attempt(producer, options, number).run(iter([rows(b"1")])) for number in range(2))
    assert commit(producer, new)
    assert commit(producer, attempt(producer, options, 0, NEXT).run(iter([rows(b"2")])))
    with pytest.raises(RequestRefused, match="batch 7 of sink/query is older than batch 8"):
        commit(producer, old)
    assert bodies(broker) == [b"1", b"2"]


def test_a_stage_that_has_expired_is_never_reported_as_written() -> None:
    with running_broker({"orders": 1}, clock="manual") as late:
        given = SinkOptions.from_options(
            {"endpoints": late.endpoints, "topic": "orders", "transactionTimeoutMs": "10000"}
        )
        producer = get_producer(given.connection)
        done = attempt(producer, given, 0).run(iter([rows(b"1")]))
        late.clock.advance(seconds=10)
        with pytest.raises(RequestRefused, match="it was dropped after its timeout"):
            commit(producer, done)
        with pytest.raises(RequestRefused, match=r"(?s)it was dropped after its timeout.* with the same checkpoint"):
            RmqpullStreamWriter(given).commit([done], 7)
        assert (bodies(late), stages(late)) == ([], [])


@pytest.mark.parametrize("extensions", ["columns,admin", "none"])
def test_without_stages_a_failed_write_leaves_rows_behind(extensions: str) -> None:
    """And its driver has nothing to drop."""

    def fail_late() -> Iterator[pa.RecordBatch]:
        yield rows(*(b"%d" % number for number in range(50)))
        raise ValueError("late")

    with running_broker({"orders": 1}, extensions=extensions) as plain:
        given = SinkOptions.from_options(
            {"endpoints": plain.endpoints, "topic": "orders", "batchBytes": "1024", "inFlight": "1"}
        )
        with pytest.raises(ValueError, match="late"):
            attempt(get_producer(given.connection), given, 0).run(fail_late())
        RmqpullStreamWriter(given).abort([None], 7)
        assert 0 < len(bodies(plain)) <= 50


def test_a_commit_without_the_stages_of_its_rows_is_refused(
    broker: RunningBroker, options: SinkOptions, producer: Producer
) -> None:
    done = attempt(producer, options, 0).run(iter([rows(b"1", b"2")]))
    with pytest.raises(RequestRefused, match="have 0 rows, but its writers staged 2 rows: rows would be lost"):
        RmqpullStreamWriter(options).commit([replace(done, call_count=0)], 7)
    assert bodies(broker) == []
    for _ in range(2):
        RmqpullStreamWriter(options).commit([done], 7)
    assert bodies(broker) == [b"1", b"2"]


def test_a_micro_batch_whose_rows_are_all_skipped_is_committed(
    broker: RunningBroker, options: SinkOptions, producer: Producer
) -> None:
    skipping = SinkOptions.from_options(
        {"endpoints": broker.endpoints, "topic": "orders", "onInvalidRow": "skip", "maxMessageSize": "1"}
    )
    done = attempt(producer, skipping, 0).run(iter([rows(b"12", b"34")]))
    assert (done.call_count, done.row_count, done.invalid_count) == (0, 2, 2)
    RmqpullStreamWriter(skipping).commit([done], 7)
    newest = broker.look(lambda state: state.stages.find_newest(BATCH.writer_id))
    assert newest is not None
    assert newest.number == BATCH.batch_id
