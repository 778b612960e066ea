"""Bounds of queues, and offsets by time. Before 5.0, brokers find the nearest message."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqpull_client.model import Bounds, MessageQueue
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.scripted_queues import QueueScript, serve_queues
from tests.harness.scripted_remoting import Reaction, make_route
from tests.harness.stored_records import StoredRecord

QUEUE = MessageQueue("orders", "broker-a", 0)


class TimeScript:
    """A queue with messages of these store times, on a broker of 4.x or 5.x."""

    def __init__(self, times_ms: Sequence[int], version: int) -> None:
        self.times_ms = times_ms
        self.version = version
        self.queues = QueueScript(max_offset=len(times_ms), disturb=self.look, others=self.search)

    def search(self, request: RemotingCommand) -> Reaction | None:
        if request.code != RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
            return None
        wanted = int(request.fields["timestamp"])
        offset = bisect_left(self.times_ms, wanted)
        if self.version < 413 and self.times_ms:  # some message with the nearest time
            offset = min(range(len(self.times_ms)), key=lambda at: (abs(self.times_ms[at] - wanted), -at))
        return replace(request.make_response(0, {"offset": str(offset)}), version=self.version)

    def look(self, request: RemotingCommand, number: int) -> Reaction | None:
        offset = int(request.fields["queueOffset"])
        record = StoredRecord(queue_offset=offset, store_ms=self.times_ms[offset]).encode()
        return self.queues.respond(request, ResponseCode.SUCCESS, "FOUND", offset + 1, record)


@pytest.mark.parametrize("version", [407, 479])
def test_a_time_finds_the_first_message_at_or_after_it(version: int) -> None:
    script = TimeScript([], version)
    with serve_queues(script.queues) as (client, _):

        @settings(max_examples=25, deadline=None)
        @given(st.lists(st.integers(1, 12), max_size=40), st.integers(0, 15))
        def holds_for(times_ms: list[int], wanted: int) -> None:
            script.times_ms = sorted(times_ms)
            script.queues.max_offset = len(times_ms)
            assert client.find_offsets_at({QUEUE: wanted}) == {QUEUE: bisect_left(script.times_ms, wanted)}

        holds_for()
        assert client.find_offsets_at({}) == {}


def test_the_reader_s_own_group_looks_at_messages() -> None:
    """Another one may have no right to pull them: access lists of 4.x name each group."""
    script = TimeScript([1, 2, 3], 407)
    groups: set[str] = set()

    def look(request: RemotingCommand, number: int) -> Reaction | None:
        groups.add(request.fields["consumerGroup"])
        return script.look(request, number)

    script.queues.disturb = look
    with serve_queues(script.queues) as (client, _):
        assert client.find_offsets_at({QUEUE: 2}, "readers") == {QUEUE: 1}
    assert groups == {"readers"}


def test_a_slave_that_lags_does_not_move_bounds() -> None:
    with serve_queues(QueueScript(10, 100), slave=QueueScript(40, 70)) as (client, [master, _]):
        assert client.query_bounds(["orders"])["orders"].queues == {QUEUE: Bounds(10, 100)}
        master.stop()
        assert client.query_bounds(["orders"])["orders"].queues == {QUEUE: Bounds(10, 100)}


def test_a_queue_that_may_not_be_read_is_told_apart_from_one_that_is_gone() -> None:
    with serve_queues(QueueScript(), queues=2) as (client, [server]):
        route = make_route({"broker-a": {0: server.address}}, 2, perm=2)
        client._channel.cluster.learn("orders", route, time.monotonic())
        topic = client.query_bounds(["orders"])["orders"]
    assert topic.queues == {}
    assert list(topic.unreadable) == [MessageQueue("orders", "broker-a", number) for number in range(2)]


def test_bounds_of_all_queues_take_one_round() -> None:
    with serve_queues(QueueScript(3, 9), QueueScript(5, 7), queues=3) as (client, servers):
        found = client.query_bounds(["orders", "missing"])
        assert set(found) == {"orders"}
        assert found["orders"].queues == {
            MessageQueue("orders", name, number): bounds
            for name, bounds in (("broker-a", Bounds(3, 9)), ("broker-b", Bounds(5, 7)))
            for number in range(3)
        }
        assert [server.connections for server in servers] == [1, 1]
