"""Clocks that are set: what a directory keeps of it, for the ages of segments and for what waits."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.model import GroupConfig, Message
from rmqpull_broker.core.popping.acks import change_invisible_time
from rmqpull_broker.core.popping.pop import pop_messages
from rmqpull_broker.core.popping.receipts import DeliveredMessage
from rmqpull_broker.core.popping.request import InitMode, PopRequest, PopResult
from rmqpull_broker.core.popping.revival import revive_due
from rmqpull_broker.core.sending.delays import deliver_due
from rmqpull_broker.core.sending.half_messages import check_transactions
from rmqpull_broker.core.sending.storing import MessageToStore, store_messages
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.facts import ClockRead
from rmqpull_broker.core.state.ports import RetentionLimits
from rmqpull_broker.core.state.waiting_messages import read_waiting
from rmqpull_broker.store.log.segments import segment_name
from rmqpull_broker.store.memory_storage import MemoryStorage
from rmqpull_proto.names import HALF_TOPIC, SCHEDULE_TOPIC
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.storage import QUEUE, StorageHarness

NOW_MS = 1_700_000_000_000
FAR_MS = 2_100_000_000_000
HOUR_MS = 3_600_000
LIMITS = RetentionLimits(2 * HOUR_MS)
RESTARTS = ("none", "snapshot", "log")


def restart(disk: MemoryFileSystem, broker: StorageHarness, how: str) -> tuple[MemoryFileSystem, StorageHarness]:
    """Starts again on a copy of the directory: with the last snapshot, or from the log alone if it is complete."""
    if how == "none":
        return disk, broker
    is_complete = segment_name(0) in disk.names()
    broker.stop()
    copy = MemoryFileSystem()
    for name in disk.names():
        if how == "snapshot" or not is_complete or not name.endswith(".snapshot"):
            copy.files[name] = bytearray(disk.files[name])
            copy.synced[name] = len(disk.files[name])
    return copy, StorageHarness(copy)


def read_clock(broker: StorageHarness, now_ms: int) -> None:
    broker.run(lambda draft: draft.add(ClockRead(now_ms)))


def fill_segments(broker: StorageHarness, count: int, now_ms: int) -> None:
    for number in range(count):
        broker.send(b"%d" % number + bytes(1_000), now_ms=now_ms)


@pytest.mark.parametrize("how", RESTARTS)
def test_the_age_of_a_segment_is_by_the_real_time_of_its_writing(how: str) -> None:
    disk = MemoryFileSystem()
    broker = StorageHarness(disk)
    broker.topic()
    fill_segments(broker, 10, FAR_MS)
    read_clock(broker, NOW_MS)
    fill_segments(broker, 10, NOW_MS + HOUR_MS)  # with store times of the year 2036
    read_clock(broker, NOW_MS + HOUR_MS)
    _, broker = restart(disk, broker, how)
    first = broker.state.bounds(QUEUE)
    broker.expire(NOW_MS + 2 * HOUR_MS, LIMITS)
    assert broker.state.bounds(QUEUE) == first
    broker.expire(NOW_MS + 2 * HOUR_MS + 1, LIMITS)
    assert 6 <= broker.state.bounds(QUEUE).min_offset <= 10
    broker.expire(NOW_MS + 3 * HOUR_MS, LIMITS)
    assert broker.state.bounds(QUEUE).min_offset <= 10
    broker.send(b"last", now_ms=NOW_MS + 3 * HOUR_MS)
    read_clock(broker, NOW_MS + 3 * HOUR_MS)
    broker.expire(NOW_MS + 3 * HOUR_MS + 1, LIMITS)
    assert broker.state.bounds(QUEUE).min_offset >= 16


def test_without_a_directory_too() -> None:
    storage = MemoryStorage()
    broker = StorageHarness.__new__(StorageHarness)
    broker.storage, broker.state = storage, BrokerState(storage.store, ["broker-a"])  # type: ignore[assignment]
    broker.sender = StorageHarness(MemoryFileSystem()).sender
    broker.topic()
    broker.publish(bytes(3 << 20), bytes(3 << 20), now_ms=FAR_MS)  # a chunk of their own
    read_clock(broker, NOW_MS)
    broker.send(b"newest", now_ms=NOW_MS)
    assert broker.storage.expire(LIMITS, NOW_MS + 2 * HOUR_MS) is None
    cut = broker.storage.expire(LIMITS, NOW_MS + 2 * HOUR_MS + 1)
    assert cut is not None
    assert cut.min_offsets == [(QUEUE, 2)]


@pytest.mark.parametrize("how", RESTARTS)
def test_a_clock_that_was_behind_makes_nothing_old(how: str) -> None:
    """A computer that starts in 1970, and gets the time a minute later."""
    disk = MemoryFileSystem()
    broker = StorageHarness(disk)
    broker.topic()
    fill_segments(broker, 10, NOW_MS)
    read_clock(broker, 60_000)
    _, broker = restart(disk, broker, how)
    broker.state.store.trust_store_times(NOW_MS + HOUR_MS)  # as when the clock is found ahead
    broker.expire(NOW_MS + 2 * HOUR_MS, LIMITS)
    assert broker.state.bounds(QUEUE).min_offset == 0


LENGTHS_MS = {"level": 30_000, "timer": 7_000, "named": -1, "half": 6_000}
INVISIBLE_MS, CHANGED_MS = 10_000, 20_000


class Life:
    """A broker whose clock is set, with the due time of everything that waits."""

    def __init__(self) -> None:
        self.disk = MemoryFileSystem()
        self.broker = StorageHarness(self.disk)
        self.now_ms = NOW_MS
        self.due: dict[object, int] = {}
        self.broker.topic()
        for group in ("readers", "ordered"):
            self.broker.run(partial(put_group, group=GroupConfig(group)))

    # --- what happens ----------------------------------------------------------------------------------------------

    def begin(self, what: str) -> None:
        """Sends a message that waits, or delivers one."""
        if what in LENGTHS_MS:
            self._send(what)
        else:
            self.broker.send(b"x", now_ms=self.now_ms)
            self._pop(what)

    def _send(self, what: str) -> None:
        properties = {"level": {"DELAY": "4"}, "timer": {"TIMER_DELAY_MS": "7000"}, "half": {"PGROUP": "g"}}
        message = Message(
            b"x" * 300,
            "id",
            system_properties=properties.get(what, {}),
            born_timestamp_ms=self.now_ms,
            transactional=what == "half",
            delivery_timestamp_ms=self.now_ms + HOUR_MS if what == "named" else None,
        )
        to_store = [MessageToStore(QUEUE, message)]
        self.broker.run(lambda draft: store_messages(draft, to_store, self.now_ms, "host"))

    def _pop(self, group: str) -> None:
        request = PopRequest(
            group, "orders", "broker-a", invisible_ms=INVISIBLE_MS, in_order=group == "ordered", init_mode=InitMode.MIN
        )
        results: list[PopResult] = []
        self.broker.run(lambda draft: results.append(pop_messages(draft, request, self.now_ms, lambda count: 1)))
        for part in results[0].parts:
            message = DeliveredMessage(group, part.queue, results[0].make_receipt(part, part.offsets[-1], 0))
            self.broker.run(
                partial(change_invisible_time, message=message, invisible_ms=CHANGED_MS, now_ms=self.now_ms)
            )

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.broker.run(lambda draft: deliver_due(draft, self.now_ms, "host"))
        self.broker.run(lambda draft: check_transactions(draft, self.now_ms, "host"))
        self.broker.run(lambda draft: revive_due(draft, self.now_ms, "host", lambda: "id"))

    def set_clock(self, ahead_ms: int) -> None:
        self.now_ms += ahead_ms
        read_clock(self.broker, self.now_ms)

    def expire(self) -> None:
        self.broker.expire(self.now_ms, RetentionLimits(HOUR_MS, 4_000))

    def restart(self, how: str) -> None:
        before, times = self.broker.observed(), self.broker.storage.store.segments.times
        self.disk, self.broker = restart(self.disk, self.broker, how)
        assert (self.broker.observed(), self.broker.storage.store.segments.times) == (before, times)

    # --- what must hold --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """No length ends later than if it began now, none is prolonged, and store times of queues never fall."""
        due = dict(self._list_due())
        for key, (due_ms, length_ms) in due.items():
            assert length_ms < 0 or due_ms <= self.now_ms + length_ms, key
            assert due_ms <= self.due.get(key, due_ms), key
        self.due = {key: due_ms for key, (due_ms, _) in due.items()}
        for queue, rows in self.broker.observed()["rows"].items():
            times = [row.store_timestamp_ms for row in rows]
            assert times == sorted(times), queue

    def _list_due(self) -> Iterator[tuple[object, tuple[int, int]]]:
        state = self.broker.state
        for message in [*state.delayed, *state.halves]:
            queue, _ = message.stored_at
            (row,) = read_waiting(state.store, [message.stored_at])
            what = {SCHEDULE_TOPIC: "level", HALF_TOPIC: "half"}.get(queue.topic, "named")
            what = "timer" if "TIMER_DELAY_MS" in row.message.system_properties else what
            checked = what == "half" and "TRANSACTION_CHECK_TIMES" in row.message.system_properties
            yield message.stored_at, (message.due_ms, 30_000 if checked else LENGTHS_MS[what])
        for group, queue in state.popped.list_queues():
            for flight in state.popped.list_in_flight(group, queue):
                yield flight[:4], (flight.visible_ms, CHANGED_MS)


STEPS_MS = [-HOUR_MS, -5_000, 5_000, HOUR_MS, FAR_MS - NOW_MS, NOW_MS - FAR_MS]
STEPS = st.one_of(
    st.tuples(st.just("begin"), st.sampled_from([*LENGTHS_MS, "readers", "ordered"])),
    st.tuples(st.just("pass_time"), st.integers(0, 15_000)),
    st.tuples(st.just("set_clock"), st.sampled_from(STEPS_MS)),
    st.tuples(st.just("restart"), st.sampled_from(["snapshot", "log"])),
    st.tuples(st.just("expire")),
)


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=30))
def test_however_the_clock_is_set_no_length_is_prolonged(steps: list[tuple[Any, ...]]) -> None:
    life = Life()
    for name, *arguments in steps:
        getattr(life, name)(*arguments)
        life.check()


OLD = Path(__file__).with_name("data_from_the_future.json")
"""The files of a data directory that a broker with format version 2 has written in 2036: each compressed, in base64."""


@pytest.mark.parametrize("has_snapshots", [True, False])
def test_a_directory_without_lengths_and_ages_counts_from_its_first_start(has_snapshots: bool) -> None:
    files = {name: zlib.decompress(base64.b64decode(text)) for name, text in json.loads(OLD.read_text()).items()}
    kept = {name: data for name, data in files.items() if has_snapshots or not name.endswith(".snapshot")}
    disk = MemoryFileSystem(kept)
    broker = StorageHarness(disk)
    assert broker.state.store.newest_written_ms == FAR_MS
    read_clock(broker, NOW_MS)
    assert sorted(message.due_ms - NOW_MS for message in broker.state.delayed) == [
        7_000,
        30_000,
        FAR_MS - NOW_MS + 3_599_000,
    ]
    assert [message.due_ms - NOW_MS for message in broker.state.halves] == [6_000]
    popped = broker.state.popped
    flights = [flight for key in popped.list_queues() for flight in popped.list_in_flight(*key)]
    assert sorted((flight.group, flight.visible_ms - NOW_MS) for flight in flights) == [
        ("ordered", 10_000),
        ("ordered", 20_000),
        ("readers", 10_000),
        ("readers", 20_000),
    ]
    broker.send(bytes(1_000), now_ms=NOW_MS)
    read_clock(broker, NOW_MS)
    for how in RESTARTS:
        disk, broker = restart(disk, broker, how)
    broker.expire(NOW_MS + 2 * HOUR_MS, LIMITS)
    assert broker.state.bounds(QUEUE).min_offset == 0
    broker.expire(NOW_MS + 2 * HOUR_MS + 1, LIMITS)
    assert broker.state.bounds(QUEUE).min_offset > 0
