"""Looking at single messages: what every transport reports, and what it does not change."""

from __future__ import annotations

import pyarrow as pa

from rmqpull_client.connection import Connection
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.looking import LookLimit
from tests.harness.served_broker import ServeBroker

GROUP = "readers"
Q0 = MessageQueue("orders", "broker-a", 0)
Q1 = MessageQueue("orders", "broker-a", 1)


def of_size(size: int, count: int) -> pa.RecordBatch:
    return pa.record_batch({"body": pa.array([bytes([number]) * size for number in range(count)])})


def test_a_message_has_a_witness_of_its_own(serve: ServeBroker) -> None:
    served = serve(batch=of_size(10, 4), queues=1)
    first, second = (served.client.look_at(GROUP, {Q0: at})[Q0] for at in (0, 1))
    again = served.client.look_at(GROUP, {Q0: 0})[Q0]
    assert first is not None
    assert second is not None
    assert again is not None
    assert (first.offset, second.offset) == (0, 1)
    assert first == again
    assert first.digest != second.digest
    assert not first.contradicts(again)
    assert first.contradicts(again._replace(digest=second.digest))
    answers = served.client.read(GROUP, [QueueRange(Q0, 0, 1)], ["storeTimestamp"])
    (row,) = [row for rows in answers for entry in rows for batch in entry.batches for row in batch.to_pylist()]
    assert first.store_ms == row["storeTimestamp"].timestamp() * 1000


def test_where_no_message_is_there_is_no_witness(serve: ServeBroker) -> None:
    client = serve(batch=of_size(10, 2), queues=2).client
    missing = MessageQueue("orders", "broker-a", 99)
    seen = client.look_at(GROUP, {Q0: 7, Q1: 0, missing: 0})
    assert seen[Q0] is None
    assert seen[Q1] is not None
    assert seen.get(missing) is None


def test_a_look_sets_no_consumer_offset(serve: ServeBroker) -> None:
    client = serve(batch=of_size(10, 4), queues=1).client
    before = client.get_consumer_offsets(GROUP, [Q0])
    client.set_consumer_offsets(GROUP, {Q0: 1})
    client.look_at(GROUP, {Q0: 3})
    assert client.get_consumer_offsets(GROUP, [Q0]) == {Q0: 1}
    assert before[Q0] in (None, 0)


def test_a_look_ends_when_it_has_enough_bytes(serve: ServeBroker) -> None:
    client = serve(batch=of_size(1_000, 40), queues=20).client
    offsets = {MessageQueue("orders", "broker-a", number): 0 for number in range(20)}
    assert len(client.look_at(GROUP, offsets)) == 20
    assert 0 < len([seen for seen in client.look_at(GROUP, offsets, 3_000).values() if seen is not None]) < 20


def test_a_server_that_is_away_tells_nothing() -> None:
    assert connect(Connection(name_servers="127.0.0.1:1", request_timeout_ms=200)).look_at(GROUP, {Q0: 0}) == {}


def test_a_look_asks_for_few_messages_until_it_knows_their_size() -> None:
    limit = LookLimit(1_000, in_flight_max=50)
    assert limit.count_next() == 4
    limit.add([10, 10])
    assert limit.count_next() == 50
    limit.add([100])
    assert limit.count_next() == 8
    limit.add([900])
    assert limit.count_next() == 0
