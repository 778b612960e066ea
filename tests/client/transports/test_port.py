"""The contract of the port: what every transport must do."""

from __future__ import annotations

import datetime
import re
import threading
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqpull_broker.core.pulling.parking import ParkedPulls
from rmqpull_client.errors import DataLoss, RequestRefused
from rmqpull_client.model import Bounds, MessageQueue, QueueRange
from rmqpull_client.transports.grpc.columnar.client import ColumnarClient
from rmqpull_client.transports.grpc.standard.client import StandardClient
from rmqpull_client.transports.port import BrokerClient
from rmqpull_client.transports.remoting.client import RemotingClient
from rmqpull_proto import columns as wire
from tests.harness.served_broker import ServeBroker

GROUP = "readers"
WAIT_S = 60


def queue(queue_id: int = 0, topic: str = "orders") -> MessageQueue:
    return MessageQueue(topic, "broker-a", queue_id)


def numbered(count: int) -> pa.RecordBatch:
    return pa.record_batch({"body": pa.array([b"%d" % number for number in range(count)])})


def everything(client: BrokerClient) -> list[QueueRange]:
    return [QueueRange(q, *bounds) for q, bounds in client.query_bounds(["orders"])["orders"].queues.items()]


def rows(client: BrokerClient, ranges: list[QueueRange], *columns: str) -> dict[MessageQueue, list[dict[str, Any]]]:
    """Reads the ranges, and returns the rows of each queue in the order of their arrival."""
    found: dict[MessageQueue, list[dict[str, Any]]] = {}
    for answer in client.read(GROUP, ranges, columns):
        for entry in answer:
            found.setdefault(entry.queue, []).extend(row for batch in entry.batches for row in batch.to_pylist())
    return found


def offsets(client: BrokerClient, ranges: list[QueueRange]) -> dict[MessageQueue, list[int]]:
    found = rows(client, ranges, "queueOffset")
    return {q: [row["queueOffset"] for row in entries] for q, entries in found.items()}


def test_the_server_decides_the_transport(serve: ServeBroker, extensions: str) -> None:
    expected = {"columns": ColumnarClient, "none": StandardClient, "remoting": RemotingClient, "apache": RemotingClient}
    assert isinstance(serve().client, expected[extensions])


def test_query_bounds_returns_all_queues(serve: ServeBroker, extensions: str) -> None:
    bounds = serve(queues=3, batch=numbered(7)).client.query_bounds(["orders", "no-such-topic"])
    assert list(bounds) == ["orders"]
    assert sorted(bounds["orders"].queues) == [queue(0), queue(1), queue(2)]
    assert {entry.min_offset for entry in bounds["orders"].queues.values()} == {0}
    assert sum(entry.max_offset for entry in bounds["orders"].queues.values()) == 7
    assert (bounds["orders"].creation_id is not None) == (extensions == "columns")


def test_query_bounds_of_an_empty_topic(serve: ServeBroker) -> None:
    assert serve(queues=2).client.query_bounds(["orders"])["orders"].queues == {
        queue(0): Bounds(0, 0),
        queue(1): Bounds(0, 0),
    }


@pytest.mark.parametrize(("queues", "count"), [(1, 100), (24, 3_000), (8, 12_000)])
def test_every_row_is_read_exactly_once_and_in_order(serve: ServeBroker, queues: int, count: int) -> None:
    client = serve(queues, numbered(count)).client
    ranges = everything(client)
    found = rows(client, ranges, "queueOffset", "body")
    for q, first, until in ranges:
        assert [row["queueOffset"] for row in found[q]] == list(range(first, until))
        numbers = [int(row["body"]) for row in found[q]]
        assert numbers == sorted(numbers)
    assert sorted(int(row["body"]) for entries in found.values() for row in entries) == list(range(count))


def test_a_read_returns_exactly_the_offsets_of_its_range(serve: ServeBroker) -> None:
    client = serve(batch=numbered(100)).client

    @settings(max_examples=40)
    @given(st.integers(0, 100), st.integers(0, 100))
    def holds_for(one: int, other: int) -> None:
        first, until = min(one, other), max(one, other)
        expected = {queue(): list(range(first, until))} if first < until else {}
        assert offsets(client, [QueueRange(queue(), first, until)]) == expected

    holds_for()


def test_the_next_range_continues_where_the_last_one_ended(serve: ServeBroker) -> None:
    client = serve(queues=3, batch=numbered(300)).client
    ends = {q: until for q, _, until in everything(client)}
    assert offsets(client, [QueueRange(queue(0), 5, 40), QueueRange(queue(2), 7, 7)]) == {queue(0): [*range(5, 40)]}
    rest = offsets(client, [QueueRange(queue(0), 40, ends[queue(0)])])
    assert rest == {queue(0): [*range(40, ends[queue(0)])]}


def test_without_ranges_there_are_no_rows(serve: ServeBroker) -> None:
    assert list(serve().client.read(GROUP, [], [])) == []


def test_bodies_of_any_size_are_read(serve: ServeBroker) -> None:
    sizes = [1, 4_000_000, 10, 4_000_000, 3_999_999, 2]
    served = serve()
    served.send(*(bytes([number]) * size for number, size in enumerate(sizes)))
    found = rows(served.client, [QueueRange(queue(), 0, len(sizes))], "body")[queue()]
    assert [(len(row["body"]), set(row["body"])) for row in found] == [
        (size, {number}) for number, size in enumerate(sizes)
    ]


def test_all_columns_have_their_types_and_values(serve: ServeBroker, extensions: str) -> None:
    born = datetime.datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=datetime.timezone.utc)
    values: dict[str, list[Any]] = {
        "body": [b"full", b"plain"],
        "tags": ["red", None],
        "keys": [["k1", "k2"], None],
        "properties": [[("colour", "ü")], None],
        "bornTimestamp": [born, born],
        "bornHost": ["10.1.2.3:5555", "10.1.2.4:5555"],
        "msgId": ["id-1", "id-2"],
    }
    arrays = {name: pa.array(value, wire.PUBLISH_SCHEMA.field(name).type) for name, value in values.items()}
    client = serve(batch=pa.record_batch(arrays)).client
    [answer] = client.read(GROUP, [QueueRange(queue(), 0, 2)], [])
    assert [batch.schema for entry in answer for batch in entry.batches] == [wire.PULL_SCHEMA]
    full, plain = [row for entry in answer for batch in entry.batches for row in batch.to_pylist()]
    expected = {name: value[0] for name, value in values.items()} | {"queueOffset": 0, "reconsumeTimes": 0}
    if extensions == "apache":  # the broker takes the host from the connection, and a batch has one born time
        del expected["bornTimestamp"]
        assert expected.pop("bornHost") != full["bornHost"]
        assert re.fullmatch(r"127\.0\.0\.1:\d+", full["bornHost"])
    assert {name: full[name] for name in expected} == expected
    assert [plain[name] for name in ("tags", "keys", "properties")] == [None, None, []]
    assert [plain[name] for name in ("messageGroup", "deliveryTimestamp")] == [None, None]


def test_only_the_named_columns_are_read(serve: ServeBroker) -> None:
    client = serve(batch=numbered(3)).client
    [answer] = client.read(GROUP, [QueueRange(queue(), 0, 3)], ["body", "queueOffset"])
    assert [batch.schema.names for entry in answer for batch in entry.batches] == [["queueOffset", "body"]]


def test_a_wait_ends_when_a_message_arrives_in_any_queue(
    serve: ServeBroker, extensions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, parked, park = serve(queues=2), threading.Event(), ParkedPulls.park

    def park_and_signal(holding: ParkedPulls, *arguments: Any) -> int:
        ticket = park(holding, *arguments)
        parked.set()
        return ticket

    monkeypatch.setattr(ParkedPulls, "park", park_and_signal)
    waited = threading.Thread(
        target=served.client.wait_for_messages, args=(GROUP, {queue(0): 0, queue(1): 0}, 2 * WAIT_S * 1000), daemon=True
    )
    waited.start()
    assert extensions == "apache" or parked.wait(WAIT_S)  # nobody sees what another process has parked
    served.send(b"new")
    waited.join(WAIT_S)
    assert not waited.is_alive()


def test_a_wait_ends_after_its_timeout(serve: ServeBroker) -> None:
    assert not serve(queues=2).client.wait_for_messages(GROUP, {queue(0): 0, queue(1): 0}, 50)


def test_a_wait_ends_at_once_if_there_are_messages(serve: ServeBroker) -> None:
    assert serve(batch=numbered(1)).client.wait_for_messages(GROUP, {queue(): 0}, 2 * WAIT_S * 1000)


def test_consumer_offsets_can_be_set_for_a_group_that_never_pulled(serve: ServeBroker) -> None:
    client = serve(queues=3, batch=numbered(30)).client
    client.set_consumer_offsets(GROUP, {queue(0): 4, queue(1): 5})
    client.set_consumer_offsets(GROUP, {queue(0): 7})
    assert client.get_consumer_offsets(GROUP, [queue(0), queue(1)]) == {queue(0): 7, queue(1): 5}


def test_setting_consumer_offsets_returns_the_previous_ones(serve: ServeBroker, extensions: str) -> None:
    client = serve(queues=3, batch=numbered(30)).client
    client.set_consumer_offsets(GROUP, {queue(0): 4, queue(1): 5})
    before = client.set_consumer_offsets(GROUP, {queue(2): 1, queue(0): 7})
    if extensions == "columns":
        assert before == {queue(0): 4}
    elif extensions in ("remoting", "apache"):  # a broker of 4.x has 0 for a new queue (rules 3.5.2)
        assert before in [{queue(0): 4}, {queue(0): 4, queue(2): 0}]
    else:  # the requests run at the same time, and a new queue starts at 0 (rules 3.5.2)
        assert before in [{queue(0): had, queue(2): new} for had in (4, 7) for new in (0, 1)]


def test_a_queue_without_a_consumer_offset_has_none(serve: ServeBroker) -> None:
    client = serve().client
    assert client.get_consumer_offsets(GROUP, [queue()]) == {queue(): None}


def test_a_time_finds_the_first_message_stored_at_or_after_it(serve: ServeBroker) -> None:
    """Acceptance cases 5 and 6: the search is by the broker's time (rules 3.11)."""
    served = serve(queues=3)
    served.send(*(b"%d" % number for number in range(60)))
    found = rows(served.client, everything(served.client), "storeTimestamp")
    stored_ms = {q: [int(row["storeTimestamp"].timestamp() * 1000) for row in entries] for q, entries in found.items()}
    for index in (0, 7, 19):
        wanted = {q: times[index] for q, times in stored_ms.items()}
        first = {q: times.index(times[index]) for q, times in stored_ms.items()}
        assert served.client.find_offsets_at(wanted) == first
    assert served.client.find_offsets_at(dict.fromkeys(stored_ms, 0)) == dict.fromkeys(stored_ms, 0)
    assert served.client.find_offsets_at({q: times[-1] + 1 for q, times in stored_ms.items()}) == dict.fromkeys(
        stored_ms, 20
    )


def test_a_time_in_an_empty_queue_finds_its_end(serve: ServeBroker) -> None:
    client = serve().client
    assert client.find_offsets_at({queue(): 1}) == {queue(): 0}
    assert client.find_offsets_at({}) == {}


@pytest.mark.parametrize(("first", "until"), [(0, 11), (10, 11), (11, 12), (50, 60)])
def test_a_range_beyond_the_end_is_lost(serve: ServeBroker, first: int, until: int) -> None:
    client = serve(batch=numbered(10)).client
    with pytest.raises(DataLoss, match="orders/broker-a/0"):
        list(client.read(GROUP, [QueueRange(queue(), first, until)], ["body"]))


def test_the_range_of_a_missing_queue_is_lost(serve: ServeBroker) -> None:
    client = serve(batch=numbered(10)).client
    with pytest.raises((DataLoss, RequestRefused), match=r"orders/broker-a/5|queueId\[5\] is illegal"):
        list(client.read(GROUP, [QueueRange(queue(5), 0, 3)], ["body"]))


def test_the_range_of_a_missing_topic_is_lost(serve: ServeBroker) -> None:
    client = serve(batch=numbered(10)).client
    with pytest.raises((DataLoss, RequestRefused), match="invoices"):
        list(client.read(GROUP, [QueueRange(queue(0, "invoices"), 0, 3)], ["body"]))


def test_a_closed_client_connects_again(serve: ServeBroker) -> None:
    client = serve(batch=numbered(2)).client
    client.close()
    assert offsets(client, everything(client)) == {queue(): [0, 1]}
