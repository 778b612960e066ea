"""A commit becomes readable in one step, over all queues, topics and protocols, also after a kill.

Threads look at 64 queues of two topics as fast as they can, while commits of a million rows become readable there and
another producer sends single messages. What counts is the order of the looks: once one has shown a row of a commit,
every one that is sent afterwards finds all of its rows.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import grpc
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from rmqpull_proto.arrow_streams import read_stream
from rmqpull_proto.columns import PULLABLE_SCHEMA, write_stream
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rmqpull.v1 import stages_pb2 as rpc
from tests.harness.broker_processes import StartProcess
from tests.harness.commit_lookers import (
    BROKER,
    GROUP,
    TAG,
    Queue,
    SeenRows,
    decode_tags,
    look_at_bounds,
    pull_columns,
    run_lookers,
)
from tests.harness.commit_order import CommitRows, Look, find_commit_rows, find_out_of_order, find_torn
from tests.harness.rpc_client import Connect, RpcClient
from tests.harness.waiting import WAIT_S

OK = 20_000
TOPICS = {"left": 32, "right": 32}
QUEUES = [Queue(topic, queue_id) for topic, count in TOPICS.items() for queue_id in range(count)]
TOPIC_ARGUMENTS = [argument for name, count in TOPICS.items() for argument in ("--topic", f"{name}:{count}")]
COMMITS, STAGES, CALLS, ROWS = 8, 4, 2, 15_625
"""A million rows in all. Each call has rows of both topics."""
LIVES, COMMITS_OF_LIFE, ROWS_WITH_KILLS = 4, 3, 4_000


class Writer:
    """Stages and commits transactions. Commit 7 has the tag ``commit-7``, and its rows are numbered."""

    def __init__(self, client: RpcClient, rows: int = ROWS) -> None:
        self._client = client
        self._rows = rows
        self.rows_of_commit = STAGES * CALLS * rows

    def stage(self, commit: int) -> None:
        """Stages all rows of a commit."""
        parts = [v1.TopicPart(topic="left", row_count=self._rows // 3)]
        parts.append(v1.TopicPart(topic="right", row_count=self._rows - self._rows // 3))
        calls = []
        for place, (stage, call) in enumerate(itertools.product(range(STAGES), range(CALLS))):
            numbers = range(place * self._rows, (place + 1) * self._rows)
            bodies = pa.array(numbers, pa.int64()).cast(pa.string()).cast(pa.binary())
            batch = pa.record_batch({"body": bodies, "tags": pa.repeat(f"{TAG}{commit}", self._rows)})
            request = rpc.StageColumnsRequest(
                transaction=_name_transaction(commit),
                stage_id=f"{commit}-{stage}",
                sequence=call,
                parts=parts,
                arrow_ipc=write_stream(batch.schema, [batch]),
            )
            calls.append(self._client.start("StageColumns", request))
        for started in calls:
            response = started.await_response()
            assert response.status.code == OK, response.status

    def commit(self, commit: int) -> bool:
        """Commits it, and returns whether it was committed before."""
        stages = [rpc.CommittedStage(stage_id=f"{commit}-{stage}", call_count=CALLS) for stage in range(STAGES)]
        request = rpc.CommitStagesRequest(transaction=_name_transaction(commit), stages=stages)
        response = self._client.call("CommitStages", request)
        assert response.status.code == OK, response.status
        return bool(response.was_committed)

    def commit_until_killed(self, commits: Sequence[int], acknowledged: list[int]) -> None:
        """Commits one after the other, and adds each to ``acknowledged``, until the broker is gone."""
        with suppress(grpc.RpcError):
            for number in commits:
                self.commit(number)
                acknowledged.append(number)


def _name_transaction(commit: int) -> rpc.Transaction:
    return rpc.Transaction(id="query", batch_id=commit)


class Singles:
    """A producer of single messages, which are acknowledged one after the other."""

    def __init__(self, client: RpcClient, life: int = 0) -> None:
        self._client = client
        self._life = life
        self.acknowledged = list[bytes]()
        self.attempted = 0
        self.errors = list[str]()

    def send_until(self, ends: threading.Event) -> None:
        for topic, number in zip(itertools.cycle(TOPICS), itertools.count(), strict=False):
            if ends.is_set():
                return
            body = b"single %d of life %d" % (number, self._life)
            self.attempted += 1
            try:
                self._client.send_bodies(topic, body)
            except (AssertionError, grpc.RpcError) as error:
                if not ends.is_set():
                    self.errors.append(repr(error))
                return
            self.acknowledged.append(body)


@contextmanager
def sending(singles: Singles) -> Iterator[None]:
    ends = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        sent = threads.submit(singles.send_until, ends)
        try:
            yield
        finally:
            ends.set()
            sent.result(WAIT_S)


class Kept:
    """All messages of the topics, by their queues' places in ``QUEUES``."""

    def __init__(self, client: RpcClient) -> None:
        self.numbers = list[npt.NDArray[np.int64]]()
        self._rows: dict[int, list[npt.NDArray[np.int64]]] = {}
        self.singles = list[bytes]()
        self.holes = list[str]()
        for queue in QUEUES:
            self._read(client, queue)
        self.commits: dict[int, CommitRows] = find_commit_rows(self.numbers)

    def _read(self, client: RpcClient, queue: Queue) -> None:
        at, numbers = 0, [np.empty(0, np.int64)]
        while True:
            pull = v1.QueuePull(
                queue=v1.Queue(topic=queue.topic, broker_name=BROKER, queue_id=queue.queue_id), offset=at
            )
            request = v1.PullColumnsRequest(group=GROUP, queues=[pull], columns=["queueOffset", "tags", "body"])
            response = client.call("PullColumns", request)
            (result,) = response.queues
            if not result.row_count:
                break
            for batch in read_stream(response.arrow_ipc, PULLABLE_SCHEMA):
                offsets = batch.column("queueOffset").to_numpy()
                if offsets.tolist() != list(range(at, at + len(offsets))):
                    self.holes.append(f"{queue}: offsets {offsets[0]} to {offsets[-1]} after {at}")
                at += len(offsets)
                of_batch = decode_tags(batch.column("tags"))
                numbers.append(of_batch)
                bodies = batch.column("body")
                self.singles += bodies.filter(pa.array(of_batch < 0)).to_pylist()
                for number in np.unique(of_batch[of_batch >= 0]).tolist():
                    of_commit = bodies.filter(pa.array(of_batch == number)).cast(pa.string()).cast(pa.int64())
                    self._rows.setdefault(number, []).append(of_commit.to_numpy())
        if at != result.max_offset:
            self.holes.append(f"{queue}: rows end at {at}, and the queue at {result.max_offset}")
        self.numbers.append(np.concatenate(numbers))

    def find_wrong_commits(self, rows: int) -> list[str]:
        """Returns each commit that does not have each of its rows once."""
        return [
            f"commit {number}: {sum(map(len, parts))} of {rows} rows"
            for number, parts in self._rows.items()
            if not np.array_equal(np.sort(np.concatenate(parts)), np.arange(rows))
        ]

    def find_wrong_singles(self, acknowledged: Sequence[bytes]) -> list[str]:
        """Returns acknowledged single messages that are not there, and those that are there twice."""
        counts = Counter(self.singles)
        lost = [f"{body!r} is lost" for body in acknowledged if not counts[body]]
        return lost + [f"{body!r} is there {count} times" for body, count in counts.items() if count > 1]


def find_changed(rows: Sequence[SeenRows], kept: Kept) -> list[str]:
    """Returns each pull whose rows differ from those that are there now."""
    return [
        f"{QUEUES[seen.place]} from {seen.offset} on"
        for seen in rows
        if not np.array_equal(seen.numbers, kept.numbers[seen.place][seen.offset :][: len(seen.numbers)])
    ]


def of_bounds(looks: Sequence[Look]) -> list[Look]:
    return [look for look in looks if look.by == "QueryBounds"]


KINDS = {
    *("QueryBounds", "PullColumns", "parked PullColumns", "QueryOffset", "PullMessage", "parked PullMessage"),
    *("GET_MAX_OFFSET", "PULL_MESSAGE", "parked PULL_MESSAGE"),
}


@pytest.mark.parametrize("is_on_disk", [False, True], ids=["memory", "disk"])
def test_once_a_call_has_shown_a_row_of_a_commit_every_later_call_finds_all_of_them(
    start_process: StartProcess, connect: Connect, tmp_path: Path, is_on_disk: bool
) -> None:
    data_dir = tmp_path / "data" if is_on_disk else None
    broker = start_process(*TOPIC_ARGUMENTS, "--remoting", "127.0.0.1:0", data_dir=data_dir)
    writer, singles = Writer(connect(broker.endpoints)), Singles(connect(broker.endpoints))
    for number in range(COMMITS):
        writer.stage(number)
    with run_lookers(broker.endpoints, broker.remoting_addresses[0], QUEUES) as running, sending(singles):
        for number in range(COMMITS):
            running.await_looks()
            assert not writer.commit(number)
        running.await_looks()
        looks, rows = running.stop()
    kept = Kept(connect(broker.endpoints))
    assert {look.by for look in looks} == KINDS
    assert (running.errors, singles.errors) == ([], [])
    assert kept.holes == []
    assert sorted(kept.commits) == list(range(COMMITS))
    assert kept.find_wrong_commits(writer.rows_of_commit) == []
    assert kept.find_wrong_singles(singles.acknowledged) == []
    assert len(singles.acknowledged) == singles.attempted > 0
    assert find_changed(rows, kept) == []
    assert find_torn(of_bounds(looks), kept.commits) + find_out_of_order(looks, kept.commits) == []


class Life(NamedTuple):
    """The commits that the broker had acknowledged before a kill or tells to be stored after it, and the first look."""

    stored: list[int]
    first_look: Look


def test_after_a_kill_each_commit_is_there_wholly_or_not_at_all(
    start_process: StartProcess, connect: Connect, tmp_path: Path
) -> None:
    """A thread commits what is staged, until the broker is killed after any number of looks."""
    dice, looks, acknowledged = random.Random(28), list[Look](), list[bytes]()
    lives = list[Life]()
    broker = start_process(*TOPIC_ARGUMENTS, data_dir=tmp_path / "data")
    for number in range(LIVES):
        writer, singles = Writer(connect(broker.endpoints), ROWS_WITH_KILLS), Singles(connect(broker.endpoints), number)
        commits = range(number * COMMITS_OF_LIFE, (number + 1) * COMMITS_OF_LIFE)
        for commit in commits:
            writer.stage(commit)
        acknowledged_commits = list[int]()
        with run_lookers(broker.endpoints, None, QUEUES, [look_at_bounds]) as running, sending(singles):
            running.await_looks()
            with ThreadPoolExecutor(1) as threads:
                committing = threads.submit(writer.commit_until_killed, commits, acknowledged_commits)
                running.await_looks(dice.randrange(12))
                broker.kill()
                committing.result(WAIT_S)
        looks += running.stop()[0]
        acknowledged += singles.acknowledged

        broker.start()
        with run_lookers(broker.endpoints, None, QUEUES, [look_at_bounds, pull_columns]) as running:
            running.await_looks()
            again = Writer(connect(broker.endpoints), ROWS_WITH_KILLS)
            unknown = [commit for commit in commits if commit not in acknowledged_commits]
            stored = [*acknowledged_commits, *(commit for commit in unknown if again.commit(commit))]
            running.await_looks()
            after_kill, _ = running.stop()
        looks += after_kill
        lives.append(Life(stored, of_bounds(after_kill)[0]))
    kept = Kept(connect(broker.endpoints))
    assert kept.holes == []
    assert sorted(kept.commits) == list(range(LIVES * COMMITS_OF_LIFE))
    assert kept.find_wrong_commits(writer.rows_of_commit) == []
    assert kept.find_wrong_singles(acknowledged) == []
    assert [
        f"commit {commit}: it was stored, and the first look after the kill lacked it"
        for life in lives
        for commit in life.stored
        if not (life.first_look.shown > kept.commits[commit].first).any()
    ] + find_torn(of_bounds(looks), kept.commits) + find_out_of_order(looks, kept.commits) == []
