"""SIGKILL at any moment: every acknowledged message is there once, at its acknowledged offset."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
from collections.abc import Callable
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

from rmqpull_proto import columns
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.arrow_streams import read_stream
from rmqpull_proto.columns import PULLABLE_SCHEMA
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.broker_processes import StartProcess
from tests.harness.rpc_client import Connect, RpcClient
from tests.harness.waiting import WAIT_S

ROWS = 1_000
BODY_BYTES = 4_000
"""Size of a bulk message: four such batches are more than a broker keeps in memory before it saves them."""
QUEUES = [v2.MessageQueue(topic=v2.Resource(name="orders"), id=queue_id) for queue_id in range(3)]


class Load:
    """Three producers and a committer that use a broker until it is killed."""

    def __init__(self, client: RpcClient, life: int, first_commit: int) -> None:
        self._client = client
        self._life = life
        self.acknowledged: list[tuple[int, bytes]] = []  # offset and body, both unique
        self.bulk: list[tuple[int, int]] = []  # first offset and number of each batch
        self.committed = first_commit
        self._progress = threading.Semaphore(0)
        works = [lambda name=name: self._produce(name) for name in "abc"]
        self._threads = [
            threading.Thread(target=self._until_gone, args=(work,)) for work in [*works, self._commit, self._publish]
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def await_acknowledged(self, count: int) -> None:
        for _ in range(count):
            assert self._progress.acquire(timeout=WAIT_S)

    def await_end(self) -> None:
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive(), "a producer did not notice that the broker is gone"

    @staticmethod
    def _until_gone(work: Callable[[], None]) -> None:
        with contextlib.suppress(grpc.RpcError):
            work()

    def _produce(self, name: str) -> None:
        for number in itertools.count():
            body = f"life {self._life} producer {name} message {number}".encode()
            (offset,) = self._client.send_bodies("orders", body)
            self.acknowledged.append((offset, body))
            self._progress.release()

    def _publish(self) -> None:
        for number in itertools.count(self._life << 32):
            request = v1.PublishColumnsRequest(topic="bulk", arrow_ipc=bulk_batch(number))
            answer = self._client.call("PublishColumns", request)
            assert answer.status.code == v2.Code.OK, answer.status
            self.bulk += [(part.first_offset, number) for part in answer.ranges]
            self._progress.release()

    def _commit(self) -> None:
        for value in itertools.count(self.committed):
            offsets = [
                v1.QueueOffset(queue=v1.Queue(topic="orders", broker_name="broker-a", queue_id=queue.id), offset=value)
                for queue in QUEUES
            ]
            assert self._client.code("CommitOffsets", v1.CommitOffsetsRequest(group="g", offsets=offsets)) == "OK"
            self.committed = value


def bulk_batch(number: int) -> bytes:
    """A batch whose bodies have its number and their indexes."""
    bodies = [b"%d %d " % (number, row) + bytes(BODY_BYTES) for row in range(ROWS)]
    batch = pa.RecordBatch.from_arrays([pa.array(bodies, pa.binary())], ["body"])
    return columns.write_stream(batch.schema, [batch])


def find_label(body: bytes) -> bytes:
    """Returns what :func:`bulk_batch` has put before the zeros of a body."""
    label = body[:32].rstrip(b"\0")  # to strip thousands of zeros from thousands of bodies takes seconds
    assert body == label + bytes(BODY_BYTES)
    return label


def kept_bulk(client: RpcClient) -> list[tuple[int, int]]:
    """Reads the first offset and the number of each batch in the topic. Fails for an incomplete batch."""
    end = client.bounds("bulk").queues[0].max_offset
    labels: list[bytes] = []
    while len(labels) < end:
        pull = v1.QueuePull(queue=v1.Queue(topic="bulk", broker_name="broker-a"), offset=len(labels))
        answer = client.call("PullColumns", v1.PullColumnsRequest(group="g", queues=[pull], columns=["body"]))
        for batch in read_stream(answer.arrow_ipc, PULLABLE_SCHEMA):
            labels += [find_label(body) for body in batch.column("body").to_pylist()]
    numbers = [int(label.split()[0]) for label in labels[::ROWS]]
    assert labels == [b"%d %d " % (number, row) for number in numbers for row in range(ROWS)]
    return [(place * ROWS, number) for place, number in enumerate(numbers)]


def kept_messages(client: RpcClient) -> list[tuple[int, bytes]]:
    """Reads the offset and body of all messages of the topic."""
    kept = []
    for queue in QUEUES:
        offset = 0
        while (pulled := client.pull(queue, offset)).code == "OK":
            kept += [(message.system_properties.queue_offset, message.body) for message in pulled.messages]
            offset = pulled.next_offset or 0
    return kept


@pytest.mark.parametrize("lives", [6, pytest.param(40, marks=pytest.mark.nightly)])
def test_acknowledged_messages_survive_kills_at_any_moment(
    start_process: StartProcess, connect: Connect, tmp_path: Path, lives: int
) -> None:
    dice = random.Random(20)
    acknowledged, bulk = list[tuple[int, bytes]](), list[tuple[int, int]]()
    committed = 0
    broker = start_process("--topic", "orders:3", "--topic", "bulk:1", data_dir=tmp_path)
    for life in range(lives):
        load = Load(connect(broker.endpoints), life, committed)
        load.start()
        load.await_acknowledged(dice.randrange(1, 150))
        broker.kill()
        load.await_end()
        acknowledged += load.acknowledged
        bulk += load.bulk

        broker = start_process(data_dir=tmp_path)
        client = connect(broker.endpoints)
        kept = kept_messages(client)
        assert set(acknowledged) <= set(kept)
        assert len({body for _, body in kept}) == len(kept)
        if life % 5 == 0:
            batches = kept_bulk(client)
            assert set(bulk) <= set(batches)
            assert len({number for _, number in batches}) == len(batches)
        # A commit without a response may be stored, but then on all queues.
        offsets = [client.get_offset("g", queue) for queue in QUEUES]
        assert offsets in ([("OK", load.committed)] * 3, [("OK", load.committed + 1)] * 3)
        assert client.update_offset("g", QUEUES[0], offsets[0][1]) == "OK"
        committed = offsets[0][1]
    assert list(tmp_path.glob("*.chunks")), "the load was too small to leave the memory"
