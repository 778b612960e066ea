"""A broker without ports on a disk in memory, and a life of it with stages and commits, told by its public calls.

What a client knows after each acknowledged step is kept: the rows at their offsets. So after a crash at any moment the
test can tell what must be there, what may be there, and what must not, without a look at what the log holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rmqpull_broker.core.admin.topics import put_topic
from rmqpull_broker.core.model import Bounds, Message, MessageQueue, TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.server.grpc.handlers.columns.publishing import publish_columns
from rmqpull_broker.server.grpc.handlers.stages.stage_calls import commit_stages, drop_stages, stage_columns
from rmqpull_broker.store.disk_storage import DiskStorage, StorageOptions
from rmqpull_broker.store.vfs import FileSystem
from rmqpull_proto.columns import write_stream
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rmqpull.v1 import stages_pb2 as rpc
from tests.harness.handlers import HandlerHarness
from tests.harness.memory_vfs import PowerCut

OK = 20_000
TOPICS = ("left", "right")
HOUR_MS = 3_600_000
LOOK_S, LOOKS = 0.05, 1_200
"""How often a step that waits looks whether the disk is gone; all looks take far longer than any step."""

Rows = Mapping[str, Sequence[bytes]]
"""Bodies by topic."""
Content = dict[MessageQueue, dict[int, bytes]]
"""The body at each offset of each queue."""


class StagingBroker:
    """A broker that has recovered what a disk holds, and does nothing by itself before :meth:`start`."""

    def __init__(self, disk: FileSystem, options: StorageOptions, properties: BrokerProperties) -> None:
        storage = DiskStorage(disk, options)
        self.handlers = HandlerHarness(properties=properties, storage=storage)
        self.state, self.service = self.handlers.state, self.handlers.service
        self.handlers.clock.advance(max(0, self.state.newest_store_ms - self.service.clock_ms()))

    def start(self) -> None:
        """Resumes what a crash has interrupted, as a broker does after its first look at the disk."""
        self.service.stage_keeper.start()

    async def put_topic(self, name: str, write_queues: int = 2) -> None:
        """Creates a topic of two queues, or changes how many of them producers see."""
        topic = TopicConfig(name, 2, write_queues, creation_id=name)
        await self.handlers.group_commit.execute(lambda draft: put_topic(draft, topic))

    async def publish(self, topic: str, *bodies: bytes) -> None:
        batch = pa.record_batch({"body": pa.array(bodies, pa.binary())})
        request = v1.PublishColumnsRequest(topic=topic, arrow_ipc=write_stream(batch.schema, [batch]))
        response = await publish_columns(self.service, request, self.handlers.caller())
        assert response.status.code == OK, response.status

    async def send(self, topic: str, body: bytes) -> None:
        now_ms = self.service.clock_ms()
        await self.service.group_commit.execute(
            lambda draft: self.service.sender.send(draft, topic, [Message(body, "id")], now_ms)
        )

    async def stage(self, writer: str, stage_id: str, sequence: int, rows: Rows) -> None:
        bodies = [body for topic in rows for body in rows[topic]]
        batch = pa.record_batch({"body": pa.array(bodies, pa.binary())})
        request = rpc.StageColumnsRequest(
            transaction=_name_transaction(writer),
            stage_id=stage_id,
            sequence=sequence,
            parts=[v1.TopicPart(topic=topic, row_count=len(rows[topic])) for topic in rows],
            arrow_ipc=write_stream(batch.schema, [batch]),
            timeout_ms=24 * HOUR_MS,
        )
        response = await stage_columns(self.service, request, self.handlers.caller())
        assert response.status.code == OK, response.status

    async def commit(self, writer: str, **call_counts: int) -> None:
        stages = [rpc.CommittedStage(stage_id=stage_id, call_count=count) for stage_id, count in call_counts.items()]
        request = rpc.CommitStagesRequest(transaction=_name_transaction(writer), stages=stages)
        response = await commit_stages(self.service, request, self.handlers.caller())
        assert response.status.code == OK, response.status

    async def drop(self, writer: str) -> None:
        request = rpc.DropStagesRequest(transaction=_name_transaction(writer))
        response = await drop_stages(self.service, request, self.handlers.caller())
        assert response.status.code == OK, response.status

    async def expire(self, after_ms: int = 0) -> None:
        """Deletes what the broker's limits allow, after this time has passed."""
        self.handlers.clock.advance(after_ms)
        await self.handlers.group_commit.expire(self.service.clock_ms())

    def read(self) -> Content:
        """Reads all messages of all queues. Fails for a hole."""
        found: Content = {}
        for queue, bounds in self.read_bounds().items():
            batches = list(self.state.store.read(queue, *bounds))
            offsets = [offset for batch in batches for offset in batch.column("queueOffset").to_pylist()]
            assert offsets == list(range(*bounds)), f"a hole in {queue}: {bounds}"
            bodies = [body for batch in batches for body in batch.column("body").to_pylist()]
            found[queue] = dict(zip(offsets, bodies, strict=True))
        return found

    def read_bounds(self) -> dict[MessageQueue, Bounds]:
        """Reads the bounds of all queues."""
        topics = [topic for name, topic in self.state.topics.items() if name in TOPICS]
        return {queue: self.state.bounds(queue) for topic in topics for queue in self.state.list_readable_queues(topic)}

    def read_min_offsets(self) -> dict[MessageQueue, int]:
        return {queue: bounds.min_offset for queue, bounds in self.read_bounds().items()}


def _name_transaction(writer: str) -> rpc.Transaction:
    return rpc.Transaction(id=writer)


@dataclass(frozen=True)
class Step:
    """A call. ``shows`` are the bodies that it makes readable, all at once, ``deletes`` whether it may delete some."""

    name: str
    call: Callable[[StagingBroker], Awaitable[None]]
    shows: tuple[bytes, ...] = ()
    deletes: bool = False


@dataclass
class Known:
    """What a client knows: the row at each offset, and from where on they are kept."""

    rows: Content = field(default_factory=dict)
    min_offsets: dict[MessageQueue, int] = field(default_factory=dict)
    steps_done: int = 0

    def learn(self, broker: StagingBroker) -> None:
        """Keeps what can be read after an acknowledged step."""
        for queue, rows in broker.read().items():
            self.rows.setdefault(queue, {}).update(rows)
        self.min_offsets = broker.read_min_offsets()
        self.steps_done += 1

    def has_new(self, broker: StagingBroker) -> bool:
        """Whether there are rows that no client knows."""
        return bool(self._list_new(broker.read()))

    def _list_new(self, found: Content) -> list[bytes]:
        known = self.rows
        return [body for queue, rows in found.items() for at, body in rows.items() if at not in known.get(queue, {})]

    def find_wrong(self, broker: StagingBroker, in_flight: Step | None) -> list[str]:
        """Returns what a broker has lost, altered, repeated or made readable in part.

        ``in_flight`` is the step whose call has no response.
        """
        wrong, found, mins = list[str](), broker.read(), broker.read_min_offsets()
        new = self._list_new(found)
        may_delete = in_flight is not None and in_flight.deletes
        for queue, rows in self.rows.items():
            kept_from = mins.get(queue, 0)
            if kept_from != self.min_offsets[queue] and not (may_delete and kept_from > self.min_offsets[queue]):
                wrong.append(f"{queue} begins at {kept_from}, and began at {self.min_offsets[queue]}")
            wrong += [
                f"{queue} has {found.get(queue, {}).get(offset)!r} at {offset} instead of {body!r}"
                for offset, body in rows.items()
                if offset >= kept_from and found.get(queue, {}).get(offset) != body
            ]
        shows = () if in_flight is None else in_flight.shows
        if new and sorted(new) != sorted(shows):
            wrong.append(f"{len(new)} of {len(shows)} rows of {in_flight and in_flight.name!r} are there")
        bodies = [body for rows in found.values() for body in rows.values()]
        if len(set(bodies)) < len(bodies):
            wrong.append(f"rows are there twice: {sorted(body for body in set(bodies) if bodies.count(body) > 1)}")
        return wrong


async def live(
    broker: StagingBroker, steps: Sequence[Step], known: Known, is_dead: Callable[[], bool] = lambda: False
) -> None:
    """Does the steps that are left, and ends the broker's work in the background.

    Raises what a step raises, and PowerCut when ``is_dead`` says during a step that the disk is gone.
    """
    try:
        while known.steps_done < len(steps):
            step = asyncio.ensure_future(steps[known.steps_done].call(broker))
            for _ in range(LOOKS):
                done, _ = await asyncio.wait([step], timeout=LOOK_S)
                if done or is_dead():
                    break
            if not step.done():
                step.cancel()
                assert is_dead(), f"{steps[known.steps_done].name} did not end"
                raise PowerCut
            await step
            known.learn(broker)
    finally:
        with suppress(PowerCut):
            await broker.handlers.group_commit.upkeep.run(lambda: None)


def make_rows(name: str, count: int) -> dict[str, list[bytes]]:
    """Returns rows of both topics whose bodies say whose they are, with some bytes more."""
    return {
        topic: [f"{name} {topic} {number} ".encode().ljust(60, b".") for number in range(count)] for topic in TOPICS
    }


def list_bodies(*rows: Rows) -> tuple[bytes, ...]:
    return tuple(body for each in rows for bodies in each.values() for body in bodies)


def make_life() -> list[Step]:
    """Commits over two topics of two queues and several stages, among other writes, retention and changes of topics."""
    rows: Any = {name: make_rows(name, 5) for name in ("a0", "a1", "b0", "c0", "c1", "d0", "e0", "f0", "g0")}

    def publish(name: str, topic: str, count: int) -> Step:
        bodies = tuple(make_rows(name, count)[topic])
        return Step(name, lambda broker: broker.publish(topic, *bodies), bodies)

    def stage(writer: str, stage_id: str, sequence: int, name: str) -> Step:
        return Step(f"stage {name}", lambda broker: broker.stage(writer, stage_id, sequence, rows[name]))

    def commit(writer: str, *names: str, **call_counts: int) -> Step:
        bodies = list_bodies(*(rows[name] for name in names))
        return Step(f"commit {writer}", lambda broker: broker.commit(writer, **call_counts), bodies)

    return [
        Step("left", lambda broker: broker.put_topic("left")),
        Step("right", lambda broker: broker.put_topic("right")),
        publish("before", "left", 7),
        stage("first", "a", 0, "a0"),
        stage("first", "b", 0, "b0"),
        stage("first", "a", 1, "a1"),
        Step("single", lambda broker: broker.send("left", b"single"), (b"single",)),
        commit("first", "a0", "a1", "b0", a=2, b=1),
        stage("second", "c", 1, "c1"),
        publish("between", "right", 6),
        stage("third", "d", 0, "d0"),
        stage("second", "c", 0, "c0"),
        commit("second", "c0", "c1", c=2),
        stage("never", "e", 0, "e0"),
        Step("retention by size", lambda broker: broker.expire(), deletes=True),
        Step("drop", lambda broker: broker.drop("never")),
        stage("fewer", "f", 0, "f0"),
        Step("fewer queues", lambda broker: broker.put_topic("right", 1)),
        commit("fewer", "f0", f=1),
        publish("later", "left", 8),
        commit("third", "d0", d=1),
        Step("retention by size again", lambda broker: broker.expire(), deletes=True),
        stage("last", "g", 0, "g0"),
        Step("retention by age", lambda broker: broker.expire(3 * HOUR_MS), deletes=True),
        publish("after", "right", 4),
        commit("last", "g0", g=1),
    ]


def list_all_bodies(steps: Sequence[Step]) -> list[bytes]:
    """Returns all bodies that a life makes readable, sorted."""
    return sorted(body for step in steps for body in step.shows)
