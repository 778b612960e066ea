"""Reads pull ahead, also while the broker is slow, busy, stalled or unavailable."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_client.connection import Connection
from rmqpull_client.flow import MIB, Flow, PulledAhead
from rmqpull_client.model import MessageFilter, MessageQueue, QueueRange
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.port import QueueRows
from tests.client.transports.test_port import GROUP, everything, numbered, queue, rows
from tests.harness.broker_processes import StartBroker
from tests.harness.served_broker import ServeBroker

WAIT_S = 60
BIG = 4_000_000


@pytest.fixture
def pull(extensions: str) -> str:
    """The RPC that reads."""
    return {"columns": "PullColumns", "none": "PullMessage"}[extensions]


def numbers(answers: Iterator[Sequence[QueueRows]]) -> Iterator[tuple[MessageQueue, int]]:
    for answer in answers:
        for entry in answer:
            for batch in entry.batches:
                for offset in batch.column("queueOffset").to_pylist():
                    yield entry.queue, offset


def all_of(ranges: Sequence[QueueRange]) -> list[tuple[MessageQueue, int]]:
    return [(entry.queue, offset) for entry in ranges for offset in range(entry.from_offset, entry.until_offset)]


def wait_until_held(broker: RunningBroker, rule_id: int, calls: int = 1) -> None:
    """Waits until a fault rule holds this number of calls."""
    pause = threading.Event()
    for _ in range(WAIT_S * 100):
        if broker.faults.kept(rule_id) >= calls:
            return
        pause.wait(0.01)
    raise AssertionError(f"rule {rule_id} never held {calls} calls")


def test_a_slow_queue_does_not_delay_the_others(serve: ServeBroker, pull: str) -> None:
    served = serve(3, numbered(6_000))
    ranges = everything(served.client)
    held = served.broker.faults.hold(pull, times=None, topic="orders", queue_id=0)
    found = numbers(served.client.read(GROUP, ranges, ["queueOffset"]))
    others = [entry for entry in ranges if entry.queue != queue(0)]
    assert sorted(next(found) for _ in all_of(others)) == all_of(others)
    served.broker.faults.remove(held)
    assert list(found) == all_of([entry for entry in ranges if entry.queue == queue(0)])


def test_messages_pulled_ahead_for_one_read_never_appear_in_another(serve: ServeBroker) -> None:
    """Acceptance case 29."""
    client = serve(2, numbered(20_000), Flow(pull_batch_size=32)).client
    earlier = client.read(GROUP, everything(client), ["queueOffset"])
    next(iter(earlier))
    later = [QueueRange(queue(1), 100, 4_100)]
    assert list(numbers(client.read(GROUP, later, ["queueOffset"]))) == all_of(later)
    del earlier
    assert list(numbers(client.read(GROUP, later, ["queueOffset"]))) == all_of(later)


def test_an_abandoned_read_leaves_no_call_in_flight(serve: ServeBroker, pull: str) -> None:
    """Spark drops the iterator when a LIMIT is reached, and when the task fails."""
    served = serve(2, numbered(30_000))
    held = served.broker.faults.hold(pull, times=None, topic="orders", queue_id=0)
    answers = served.client.read(GROUP, everything(served.client), ["queueOffset"])
    next(iter(answers))
    wait_until_held(served.broker, held)
    del answers
    gc.collect()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rmqpull-pull")]


def test_a_read_waits_for_a_stalled_broker(serve: ServeBroker, pull: str) -> None:
    served = serve(2, numbered(3_000))
    ranges = everything(served.client)
    held = served.broker.faults.hold(pull, times=None)
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(lambda: list(numbers(served.client.read(GROUP, ranges, ["queueOffset"]))))
        wait_until_held(served.broker, held, 2)
        served.broker.faults.remove(held)
        assert sorted(reading.result(WAIT_S)) == all_of(ranges)


@pytest.mark.parametrize(
    "inject",
    [
        lambda broker, rpc: broker.faults.disconnect(rpc, times=2),
        lambda broker, rpc: broker.faults.fail(rpc, "TOO_MANY_REQUESTS", times=2),
        lambda broker, rpc: broker.faults.delay(rpc, 5, times=2),
    ],
    ids=["disconnects", "is busy", "is slow"],
)
def test_a_pull_that_fails_is_repeated(
    serve: ServeBroker, pull: str, inject: Callable[[RunningBroker, str], int]
) -> None:
    served = serve(2, numbered(2_000))
    ranges = everything(served.client)
    inject(served.broker, pull)
    assert sorted(numbers(served.client.read(GROUP, ranges, ["queueOffset"]))) == all_of(ranges)
    assert [report.injected for report in served.broker.faults.reports()] == [2]


def test_a_read_whose_filter_matches_nothing_ends(serve: ServeBroker, pull: str) -> None:
    served = serve(1, numbered(5_000), Flow(pull_batch_size=32))
    counted = served.broker.faults.delay(pull, 1, times=None)
    wanted = QueueRange(queue(), 0, 5_000)
    assert list(served.client.read(GROUP, [wanted], ["queueOffset"], message_filter=MessageFilter("nobody"))) == []
    [report] = [report for report in served.broker.faults.reports() if report.rule_id == counted]
    assert (
        1 <= report.injected <= 5_000 // 32 + 1
    )  # each pull continues after the messages that the last one passed over


@pytest.mark.parametrize("stops_gracefully", [False, True])
def test_a_read_survives_a_restart_of_the_broker(
    start_broker: StartBroker, extensions: str, tmp_path: Path, stops_gracefully: bool
) -> None:
    broker = start_broker({"orders": 2}, data_dir=tmp_path)
    publisher = connect(Connection(broker.endpoints, 1000 * WAIT_S))
    for first in range(0, 8_000, 1_000):
        publisher.publish(
            "orders", pa.record_batch({"body": pa.array([b"%1000d" % (first + n) for n in range(1_000)])})
        )
    publisher.close()
    broker.extensions = extensions
    broker.restart()
    client = connect(Connection(broker.endpoints, 1000 * WAIT_S), Flow(pull_threshold_size_for_topic=1))
    ranges = everything(client)
    found = numbers(client.read(GROUP, ranges, ["queueOffset", "body"]))
    read = [next(found)]
    (broker.stop if stops_gracefully else broker.kill)()
    starting = threading.Thread(target=broker.start)
    starting.start()
    read += found
    starting.join(WAIT_S)
    assert sorted(read) == all_of(ranges)
    assert [offset for mine, offset in read if mine == queue(1)] == list(range(len(read) // 2))
    client.close()


def test_every_call_waits_for_a_broker_that_restarts(
    start_broker: StartBroker, extensions: str, tmp_path: Path
) -> None:
    """Kafka's driver waits for ever (docs/kafka-options.md, known complaints)."""
    broker = start_broker({"orders": 2}, data_dir=tmp_path, extensions=extensions)
    client = connect(Connection(broker.endpoints, 1000 * WAIT_S))
    offsets = {queue(0): 0, queue(1): 0}
    asked: list[tuple[Callable[[], object], object]] = [
        (lambda: client.query_bounds(["orders"])["orders"].queues.keys(), offsets.keys()),
        (lambda: client.set_consumer_offsets(GROUP, offsets) is not None, True),
        (partial(client.get_consumer_offsets, "others", list(offsets)), dict.fromkeys(offsets)),
        (partial(client.find_offsets_at, offsets), offsets),
    ]
    broker.kill()
    with ThreadPoolExecutor(len(asked)) as threads:
        answers = [threads.submit(ask) for ask, _ in asked]
        broker.start()
        assert [answer.result(WAIT_S) for answer in answers] == [expected for _, expected in asked]
    client.close()


@pytest.mark.parametrize("size_mib", [1, 8, 20])
def test_large_bodies_are_pulled_ahead_up_to_the_limit(
    serve: ServeBroker, size_mib: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, finish_pull = [0], PulledAhead.finish_pull

    def finish_and_measure(counted: PulledAhead, lane: int, messages: int, byte_count: int) -> None:
        finish_pull(counted, lane, messages, byte_count)
        most[0] = max(most[0], counted.byte_count)

    monkeypatch.setattr(PulledAhead, "finish_pull", finish_and_measure)
    served = serve(3, flow=Flow(pull_threshold_size_for_topic=size_mib))
    served.broker.send("orders", *(bytes([number]) * BIG for number in range(18)))
    answers = served.client.read(GROUP, everything(served.client), ["body"])
    sizes = [
        len(body)
        for answer in answers
        for entry in answer
        for batch in entry.batches
        for body in batch.column("body").to_pylist()
    ]
    assert sizes == [BIG] * 18
    # A pull may bring one message that is larger than its assumed size: at most one per queue.
    assert BIG <= most[0] <= size_mib * MIB + 3 * BIG


READ_AND_MEASURE = """
import hashlib, resource, sys
from rmqpull_client import connect
from rmqpull_client.connection import Connection
from rmqpull_client.flow import Flow
from rmqpull_client.model import QueueRange

client = connect(Connection(sys.argv[1], 60_000), Flow(pull_threshold_size_for_topic=16))
ranges = [QueueRange(q, *bounds) for q, bounds in client.query_bounds(["orders"])["orders"].queues.items()]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
digests = set()
for answer in client.read("g", ranges, ["body"]):
    for entry in answer:
        for batch in entry.batches:
            for body in batch.column("body"):
                digests.add(hashlib.sha512(body.as_buffer()).hexdigest())  # takes longer than a pull
print(len(digests), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.processes
def test_the_memory_of_a_reading_process_does_not_grow_with_the_bodies(extensions: str, tmp_path: Path) -> None:
    count = 45
    with running_broker({"orders": 3}, data_dir=str(tmp_path), extensions=extensions) as broker:
        for number in range(count):
            broker.send("orders", bytes([number]) * BIG)
        command = [sys.executable, "-c", READ_AND_MEASURE, broker.endpoints]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=2 * WAIT_S, check=False)
    assert ran.returncode == 0, ran.stderr
    read, grown_mib = map(int, ran.stdout.split())
    assert read == count
    assert grown_mib < count * BIG // MIB // 2


def test_many_small_queues_share_pulls(serve: ServeBroker, pull: str, extensions: str) -> None:
    served = serve(64, numbered(640))
    counted = served.broker.faults.delay(pull, 1, times=None)
    assert sum(map(len, rows(served.client, everything(served.client), "queueOffset").values())) == 640
    [report] = [report for report in served.broker.faults.reports() if report.rule_id == counted]
    assert report.injected == {"columns": 8, "none": 64}[extensions]
