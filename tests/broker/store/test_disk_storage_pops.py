"""Messages in flight through restarts, snapshots, retention and deletions: none is lost or delivered twice."""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.admin.groups import delete_group, put_group
from rmqpull_broker.core.admin.topics import delete_topic
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import GroupConfig, MessageQueue
from rmqpull_broker.core.popping.acks import acknowledge, change_invisible_time
from rmqpull_broker.core.popping.pop import pop_messages
from rmqpull_broker.core.popping.receipts import DeliveredMessage
from rmqpull_broker.core.popping.request import InitMode, PopRequest, PopResult
from rmqpull_broker.core.popping.revival import revive_due
from rmqpull_broker.core.state.names import name_pop_retry_topic
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.storage import ALL, QUEUE, StorageHarness

GROUPS = ("readers", "ordered")
INVISIBLE_MS = 10_000


class Life:
    """A broker with a topic of two queues, and what its two groups know: "ordered" receives in order."""

    def __init__(self) -> None:
        self.disk = MemoryFileSystem()
        self.broker = StorageHarness(self.disk)
        self.now_ms = 1_000
        self.sent: set[bytes] = set()
        self.acknowledged: dict[str, set[bytes]] = {name: set() for name in GROUPS}
        self.delivered: list[tuple[DeliveredMessage, bytes]] = []
        self.starts_again: set[str] = set()
        self._create()

    def _create(self) -> None:
        self.broker.topic("orders", 2)
        for name in GROUPS:
            self.broker.run(partial(put_group, group=GroupConfig(name)))

    # --- what happens ----------------------------------------------------------------------------------------------

    def send(self, count: int) -> None:
        for _ in range(count):
            body = b"%d " % len(self.sent) + bytes(200) + b"%d" % self.now_ms
            self.now_ms += 1
            self.broker.send(body, now_ms=self.now_ms)
            self.sent.add(body)

    def pop(self, group: str, count: int) -> None:
        request = PopRequest(
            group,
            "orders",
            "broker-a",
            max_msg_nums=count,
            invisible_ms=INVISIBLE_MS,
            in_order=group == "ordered",
            init_mode=InitMode.MIN,
        )
        results: list[PopResult] = []
        self.broker.run(lambda draft: results.append(pop_messages(draft, request, self.now_ms, lambda count: 1)))
        for part in results[0].parts:
            bodies = [row.message.body for row in columns.to_rows(part.pulled.batches)]
            for offset, body in zip(part.offsets, bodies, strict=True):
                receipt = results[0].make_receipt(part, offset, 0)
                self.delivered.append((DeliveredMessage(group, part.queue, receipt), body))

    def ack(self, index: int) -> None:
        message, body = self.delivered.pop(index % len(self.delivered))
        ended: list[bool] = []
        self.broker.run(lambda draft: ended.append(acknowledge(draft, message)))
        if ended == [True]:
            self.acknowledged[message.group].add(body)

    def change(self, index: int) -> None:
        message, body = self.delivered.pop(index % len(self.delivered))
        changed: list[DeliveredMessage] = []
        self.broker.run(
            lambda draft: changed.append(
                message._replace(receipt=change_invisible_time(draft, message, 4_000, self.now_ms))
            )
        )
        self.delivered.append((changed[0], body))

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.broker.run(lambda draft: revive_due(draft, self.now_ms, "host", lambda: "id"))

    def expire(self) -> None:
        self.broker.expire(self.now_ms, ALL)

    def delete_group(self, group: str) -> None:
        self.broker.run(partial(delete_group, name=group))
        self.broker.run(partial(put_group, group=GroupConfig(group)))
        self.acknowledged[group] = set()
        self.starts_again.add(group)

    def delete_topic(self) -> None:
        self.broker.run(partial(delete_topic, name="orders"))
        self.sent = set()
        self._create()

    def restart(self) -> None:
        """The power is cut, and comes back."""
        known = self.broker.observed()
        self.disk = self.disk.crashed()
        self.broker = StorageHarness(self.disk)
        assert self.broker.observed() == known

    # --- what must hold --------------------------------------------------------------------------------------------

    def check(self) -> None:
        for group in GROUPS:
            coming = Counter(self._list_coming(group))
            kept = {body for queue in self._list_queues(group) for body in self._read(queue, 0)}
            assert (kept & self.sent) - self.acknowledged[group] <= set(coming)
            if group not in self.starts_again and group == "readers":
                assert set(coming.values()) <= {1}

    def _list_coming(self, group: str) -> Iterator[bytes]:
        """The messages that the group will get, or get again, without further sends."""
        for queue in self._list_queues(group):
            yield from self._read(queue, self.broker.state.consumer_offsets.get((group, queue), 0))
            if group == "readers":
                for flight in self.broker.state.popped.list_in_flight(group, queue):
                    if flight.queue_offset >= self.broker.state.bounds(queue).min_offset:
                        yield self._read(queue, flight.queue_offset)[0]

    def _list_queues(self, group: str) -> list[MessageQueue]:
        names = ["orders"] if group == "ordered" else ["orders", name_pop_retry_topic(group, "orders")]
        found = (self.broker.state.find_topic(name) for name in names)
        return [queue for topic in found if topic for queue in self.broker.state.list_readable_queues(topic)]

    def _read(self, queue: MessageQueue, offset: int) -> list[bytes]:
        bounds = self.broker.state.bounds(queue)
        rows = self.broker.state.store.read(queue, max(offset, bounds.min_offset), bounds.max_offset)
        return [row.message.body for row in columns.to_rows(rows)]


STEPS = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 4)),
    st.tuples(st.just("pop"), st.sampled_from(GROUPS), st.integers(1, 5)),
    st.tuples(st.sampled_from(("ack", "change")), st.integers(0, 9)),
    st.tuples(st.just("pass_time"), st.sampled_from((1, 4_000, 10_000))),
    st.tuples(st.just("delete_group"), st.sampled_from(GROUPS)),
    st.tuples(st.sampled_from(("expire", "delete_topic", "keep_up", "snapshot", "restart", "restart"))),
)


@given(st.lists(STEPS, max_size=30))
def test_no_message_is_lost_whatever_happens_while_it_is_in_flight(steps: list[tuple[object, ...]]) -> None:
    life = Life()
    for name, *arguments in (("send", 5), ("pop", "readers", 3), ("pop", "ordered", 3), *steps):
        if name in ("ack", "change") and not life.delivered:
            continue
        of = life.broker if name in ("keep_up", "snapshot") else life
        getattr(of, str(name))(*arguments)
        life.check()
    life.restart()
    life.check()


@pytest.mark.parametrize("stops", [True, False])
def test_what_is_in_flight_is_redelivered_after_a_restart(stops: bool) -> None:
    life = Life()
    life.send(4)
    life.pop("readers", 4)
    life.ack(0)
    if stops:
        life.broker.stop()
    life.restart()
    life.pass_time(INVISIBLE_MS)
    life.delivered.clear()
    life.pop("readers", 4)
    assert {body for _, body in life.delivered} == life.sent - life.acknowledged["readers"]
    assert life.broker.state.consumer_offsets["readers", MessageQueue("orders", "broker-a", 0)] == 2


OLD = Path(__file__).with_name("data_before_deliveries.json")
"""The files of a data directory that a broker without pop has written: each compressed, in base64."""


def test_a_data_directory_of_a_broker_without_pop_loads_and_its_messages_can_be_received() -> None:
    files = {name: zlib.decompress(base64.b64decode(text)) for name, text in json.loads(OLD.read_text()).items()}
    assert any(name.endswith(".snapshot") for name in files)
    life = Life()
    life.disk = MemoryFileSystem(files)
    life.broker = StorageHarness(life.disk)
    state = life.broker.state
    assert (life.broker.bodies(), len(state.delayed)) == ([b"message %d" % number for number in range(12)], 1)
    assert (state.consumer_offsets["readers", QUEUE], life.broker.observed()["in flight"]) == (3, [])
    life.pop("readers", 32)
    assert [body for _, body in life.delivered] == [b"message %d" % number for number in range(3, 12)]
    life.restart()
    assert len(life.broker.state.popped) == 9
