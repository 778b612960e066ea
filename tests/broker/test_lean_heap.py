"""One heap for all threads: the setting of the C library, and the memory of a broker with it."""

from __future__ import annotations

import ctypes
import os
import time
import uuid
from pathlib import Path

import grpc
import pytest

from rmqpull_broker.core.model import TopicType
from rmqpull_broker.lean import share_one_heap
from rmqpull_broker.testing import BrokerProcess
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.rpc import MESSAGING

DELAYED = 20_000
GROWTH_BYTES_MAX = 24_000_000
"""With Arrow's own allocator: 28 MB without a data directory and 37 MB with one. With one heap: 10 and 18 MB."""
BROKERS = 3
HAS_PROC = Path("/proc/self/status").exists()


class _Library:
    def __init__(self) -> None:
        self.settings: list[tuple[int, int]] = []

    def mallopt(self, name: int, value: int) -> int:
        self.settings.append((name, value))
        return 1


def test_all_threads_share_one_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(os, "environ", {})
    share_one_heap()
    assert library.settings == [(-8, 1)]  # M_ARENA_MAX of malloc.h
    assert os.environ == {"ARROW_DEFAULT_MEMORY_POOL": "system"}


def test_an_allocator_that_the_user_chose_for_arrow_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: _Library())
    monkeypatch.setattr(os, "environ", {"ARROW_DEFAULT_MEMORY_POOL": "jemalloc"})
    share_one_heap()
    assert os.environ == {"ARROW_DEFAULT_MEMORY_POOL": "jemalloc"}


def test_another_c_library_stays_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    monkeypatch.setattr(os, "environ", {})
    share_one_heap()
    assert not os.environ


def resident_bytes(pid: int) -> int:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) * 1024


def delayed_message() -> v2.Message:
    """A message of 100 random bytes that is due in an hour."""
    properties = v2.SystemProperties(message_id=uuid.uuid4().hex, message_type=v2.MessageType.DELAY)
    properties.delivery_timestamp.FromSeconds(int(time.time()) + 3_600)
    return v2.Message(topic=v2.Resource(name="later"), body=os.urandom(100), system_properties=properties)


def send_delayed(endpoints: str, count: int, per_call: int = 32, in_flight: int = 125) -> None:
    method = MESSAGING.methods["SendMessage"]
    with grpc.insecure_channel(endpoints) as channel:
        send = channel.unary_unary(
            method.path,
            request_serializer=messaging.SendMessageRequest.SerializeToString,
            response_deserializer=messaging.SendMessageResponse.FromString,
        )
        for _ in range(count // (per_call * in_flight)):
            requests = [
                messaging.SendMessageRequest(messages=[delayed_message() for _ in range(per_call)])
                for _ in range(in_flight)
            ]
            calls = [send.future(request, metadata=(("x-mq-client-id", "test"),)) for request in requests]
            assert {call.result(timeout=60).status.code for call in calls} == {v2.Code.OK}


@pytest.mark.processes
@pytest.mark.skipif(not HAS_PROC, reason="only Linux tells what another process takes")
@pytest.mark.parametrize("has_data_dir", [False, True], ids=["memory", "disk"])
def test_a_broker_frees_the_memory_of_past_messages(has_data_dir: bool, tmp_path: Path) -> None:
    """On a busy machine calls pile up, and a broker may need more. With Arrow's own allocator each broker does."""

    def measure_growth(data_dir: Path) -> int:
        with BrokerProcess({"later": (1, TopicType.DELAY)}, data_dir=data_dir if has_data_dir else None) as broker:
            before = resident_bytes(broker.pid)
            send_delayed(broker.endpoints, DELAYED)
            return resident_bytes(broker.pid) - before

    growths = (measure_growth(tmp_path / str(number)) for number in range(BROKERS))
    assert any(growth <= GROWTH_BYTES_MAX for growth in growths)
