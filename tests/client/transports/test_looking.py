"""What a look requests at once, and the witnesses that it makes of messages."""

from __future__ import annotations

import pyarrow as pa

from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.looking import COLUMNS, FIRST_PULLS, LookLimit, make_witnesses


def test_the_first_requests_are_few_and_the_next_ones_as_many_as_fit() -> None:
    limit = LookLimit(1_000, 100)
    assert limit.count_next() == FIRST_PULLS
    limit.add([10])
    assert limit.count_next() == 99
    limit.add([100])
    assert limit.count_next() == 8


def test_no_more_are_in_flight_than_allowed() -> None:
    limit = LookLimit(1_000, 5)
    limit.add([1])
    assert limit.count_next() == 5


def test_one_message_that_may_not_fit_is_still_requested() -> None:
    limit = LookLimit(1_000, 100)
    limit.add([600])
    assert limit.count_next() == 1
    limit.add([400])
    assert limit.count_next() == 0


def test_a_message_without_bytes_counts_as_one_byte() -> None:
    limit = LookLimit(1_000, 2_000)
    limit.add([0])
    assert limit.count_next() == 1_000


def test_a_witness_tells_where_the_id_ends_and_the_body_begins() -> None:
    queues = [MessageQueue("orders", "broker-a", number) for number in range(2)]
    given = {"queueOffset": [7, 7], "msgId": ["a", "ab"], "body": [b"bc", b"c"], "storeTimestamp": [5_000, 5_000]}
    rows = pa.table({name: given[name] for name in COLUMNS})
    first, second = make_witnesses(queues, rows, "remoting").values()
    assert (first.offset, first.store_ms, first.protocol) == (7, 5, "remoting")
    assert first.digest != second.digest
