"""Which of the messages that brokers have found in their index are shown, and what is said about others."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pytest

from rmqpull_client.cli.looking_up import READ_INSTEAD, Wanted, choose
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.tools_port import IndexedMessages

FIRST, SECOND = (MessageQueue("orders", "broker-a", number) for number in range(2))
OLDER = f"a broker tells only of the newest messages, so there may be older ones: {READ_INSTEAD}"
NOTHING = f"brokers looked in their index: {READ_INSTEAD}"


def rows(*times: int) -> pa.RecordBatch:
    """Returns messages with these store times, in microseconds; their offsets count from 0."""
    columns = {"storeTimestamp": pa.array(times, pa.timestamp("us")), "queueOffset": range(len(times))}
    return pa.record_batch(columns)


@pytest.mark.parametrize(
    ("wanted", "may_lack_older", "times", "advice"),
    [
        (Wanted("k", None, 10), False, [1, 2, 3, 4], ""),
        (Wanted("k", None, 2), False, [3, 4], ""),
        (Wanted("k", None, 2), True, [3, 4], ""),  # older ones are not wanted
        (Wanted("k", None, 5), True, [1, 2, 3, 4], OLDER),
        (Wanted("k", None, 2, from_offset=0), False, [1, 2], ""),
        (Wanted("k", None, 2, from_offset=0), True, [1, 2], OLDER),
        (Wanted("k", None, 2, at_time=0), True, [1, 2], OLDER),
        (Wanted("k", None, 9, from_offset=1), False, [3, 4], ""),
        (Wanted("k", None, 9, from_offset=2), False, [], NOTHING),
    ],
)
def test_messages_are_chosen(wanted: Wanted, may_lack_older: bool, times: Iterable[int], advice: str) -> None:
    indexed = choose(IndexedMessages({FIRST: rows(1, 4), SECOND: rows(2, 3)}, may_lack_older), wanted)
    assert ([each.store_us for each in indexed.found], indexed.advice) == (times, advice)
