"""SIGKILL at any moment: what was acknowledged is there, once, at the offset that was acknowledged."""

from __future__ import annotations

import contextlib
import itertools
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1

if TYPE_CHECKING:
    from tests.broker.conftest import Client, Connect, Serve

QUEUES = [v2.MessageQueue(topic=v2.Resource(name="orders"), id=queue_id) for queue_id in range(3)]
LIVES = 4


class Load:
    """Three producers and a committer, at work on one broker until it is gone."""

    def __init__(self, client: Client, life: int, first_commit: int) -> None:
        self._client = client
        self._life = life
        self.acknowledged: list[tuple[int, bytes]] = []  # offset and body, which no two messages share
        self.committed = first_commit
        self._progress = threading.Semaphore(0)
        works = [lambda name=name: self._produce(name) for name in "abc"]
        self._threads = [threading.Thread(target=self._until_gone, args=(work,)) for work in [*works, self._commit]]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def await_acknowledged(self, count: int) -> None:
        for _ in range(count):
            assert self._progress.acquire(timeout=60)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

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

    def _commit(self) -> None:
        for value in itertools.count(self.committed):
            offsets = [
                v1.QueueOffset(queue=v1.Queue(topic="orders", broker_name="broker-a", queue_id=queue.id), offset=value)
                for queue in QUEUES
            ]
            assert self._client.code("CommitOffsets", v1.CommitOffsetsRequest(group="g", offsets=offsets)) == "OK"
            self.committed = value


def kept_messages(client: Client) -> list[tuple[int, bytes]]:
    """Offset and body of everything that the topic holds."""
    kept = []
    for queue in QUEUES:
        offset = 0
        while (pulled := client.pull(queue, offset)).code == "OK":
            kept += [(message.system_properties.queue_offset, message.body) for message in pulled.messages]
            offset = pulled.next_offset or 0
    return kept


def test_what_was_acknowledged_survives_kills_at_any_moment(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    dice = random.Random(20)
    acknowledged: list[tuple[int, bytes]] = []
    committed = 0
    broker = serve("--topic", "orders:3", data_dir=tmp_path)
    for life in range(LIVES):
        load = Load(connect(broker.endpoints), life, committed)
        load.start()
        load.await_acknowledged(dice.randrange(1, 150))
        broker.end(signal.SIGKILL)
        load.join()
        acknowledged += load.acknowledged

        broker = serve("--topic", "orders:3", data_dir=tmp_path)
        client = connect(broker.endpoints)
        kept = kept_messages(client)
        assert set(acknowledged) <= set(kept)
        assert len({body for _, body in kept}) == len(kept)
        # A commit whose answer was lost may be kept, but then on all queues.
        offsets = [client.get_offset("g", queue) for queue in QUEUES]
        assert offsets in ([("OK", load.committed)] * 3, [("OK", load.committed + 1)] * 3)
        assert client.update_offset("g", QUEUES[0], offsets[0][1]) == "OK"
        committed = offsets[0][1]
