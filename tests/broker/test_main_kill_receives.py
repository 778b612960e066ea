"""SIGKILL while messages are in flight: what was not acknowledged is redelivered, and what was acknowledged is not."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
from collections.abc import Callable
from pathlib import Path

import grpc

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rmqpull.v1 import admin_pb2 as admin
from tests.harness.broker_processes import StartProcess
from tests.harness.receiver import Receiver
from tests.harness.rpc_client import RpcClient
from tests.harness.waiting import WAIT_S

LIVES = 6
INVISIBLE_MS = 30_000
"""By the clock of the broker, which the test moves."""
ARGUMENTS = ("--clock", "manual")


class Load:
    """A producer and two consumers, one of which acknowledges every second message only."""

    def __init__(self, endpoints: str, life: int) -> None:
        self._endpoints = endpoints
        self._life = life
        self.sent: set[bytes] = set()
        self.received: list[bytes] = []
        self.acknowledged: set[bytes] = set()
        self.unanswered: set[bytes] = set()
        self._progress = threading.Semaphore(0)
        works = (self._produce, lambda: self._consume(1), lambda: self._consume(2))
        self._threads = [threading.Thread(target=self._until_gone, args=(work,)) for work in works]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def await_acknowledged(self, count: int) -> None:
        for _ in range(count):
            assert self._progress.acquire(timeout=WAIT_S)

    def await_end(self) -> None:
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive(), "a client did not notice that the broker is gone"

    @staticmethod
    def _until_gone(work: Callable[[], None]) -> None:
        with contextlib.suppress(grpc.RpcError):
            work()

    def _produce(self) -> None:
        client = RpcClient(self._endpoints)
        for number in itertools.count():
            body = f"life {self._life} message {number}".encode()
            client.send_bodies("orders", body)
            self.sent.add(body)

    def _consume(self, step: int) -> None:
        with Receiver(self._endpoints) as receiver:
            while True:
                messages = receiver.receive(8, INVISIBLE_MS)
                self.received += [message.body for message in messages]
                for message in messages[::step]:
                    self.unanswered.add(message.body)
                    assert receiver.ack(message) == "OK"
                    self.unanswered.discard(message.body)
                    self.acknowledged.add(message.body)
                    self._progress.release()


def drain(endpoints: str) -> list[bytes]:
    """Receives and acknowledges all that comes, without waiting for more."""
    bodies: list[bytes] = []
    with Receiver(endpoints) as receiver:
        while sum(each.lag for each in receiver.client.call("QueryLag", admin.QueryLagRequest()).progress):
            messages = receiver.receive(32, INVISIBLE_MS)
            bodies += [message.body for message in messages]
            assert receiver.ack(*messages) == "OK"
    return bodies


def let_time_pass(endpoints: str, ms: int) -> None:
    client = RpcClient(endpoints)
    assert client.call("AdvanceClock", admin.AdvanceClockRequest(by_ms=ms)).status.code == v2.Code.OK
    client.channel.close()


def test_messages_in_flight_survive_kills_at_any_moment(start_process: StartProcess, tmp_path: Path) -> None:
    dice = random.Random(21)
    sent, acknowledged, unanswered, received = set[bytes](), set[bytes](), set[bytes](), list[bytes]()
    broker = start_process("--topic", "orders:2", *ARGUMENTS, data_dir=tmp_path)
    for life in range(LIVES):
        load = Load(broker.endpoints, life)
        load.start()
        load.await_acknowledged(dice.randrange(1, 60))
        broker.kill()
        load.await_end()
        assert not acknowledged & set(load.received), "an acknowledged message was redelivered"
        received += load.received
        sent |= load.sent
        acknowledged |= load.acknowledged
        unanswered |= load.unanswered
        broker = start_process(*ARGUMENTS, data_dir=tmp_path)
        let_time_pass(broker.endpoints, INVISIBLE_MS)
    rest = drain(broker.endpoints)
    assert len(rest) == len(set(rest)), "a message came twice, although it was acknowledged in time"
    assert not acknowledged & set(rest)
    assert sent <= acknowledged | unanswered | set(rest)
    assert len(received) > len(set(received)), "nothing was redelivered"


def test_a_delivered_message_is_in_flight_until_its_time_after_a_kill(
    start_process: StartProcess, tmp_path: Path
) -> None:
    broker = start_process("--topic", "orders:1", *ARGUMENTS, data_dir=tmp_path)
    with Receiver(broker.endpoints) as receiver:
        receiver.client.send_bodies("orders", b"kept", b"done")
        _, done = receiver.receive(2, INVISIBLE_MS)
        receiver.ack(done)
    broker.kill()
    broker = start_process(*ARGUMENTS, data_dir=tmp_path)
    client = RpcClient(broker.endpoints)
    (flight,) = client.call("ListInFlight", admin.ListInFlightRequest()).messages
    assert (flight.queue_offset, flight.visible_timestamp_ms - flight.delivered_timestamp_ms) == (0, INVISIBLE_MS)
    let_time_pass(broker.endpoints, INVISIBLE_MS)
    with Receiver(broker.endpoints) as receiver:
        (again,) = receiver.receive(2, INVISIBLE_MS)
    assert (again.body, again.system_properties.delivery_attempt) == (b"kept", 2)
