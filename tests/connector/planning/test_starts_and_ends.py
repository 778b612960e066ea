"""Where queues start once their bounds are known, RocketMQ's ``computePullFromWhere`` included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from pyspark_rmqpull.planning.offset_specs import ALL_QUEUES, AtTime, OffsetSpec, OffsetSpecs, RankedSpecs, Scope
from pyspark_rmqpull.planning.starts_and_ends import (
    CONSUME_FROM_FIRST_OFFSET,
    CONSUME_FROM_LAST_OFFSET,
    CONSUME_FROM_TIMESTAMP,
    StartRules,
    compute_pull_from_where,
)
from rmqpull_client.errors import DataLoss, OptionError
from rmqpull_client.model import Bounds, MessageQueue

A0, A1, B0 = (MessageQueue("orders", broker, queue_id) for broker, queue_id in (("a", 0), ("a", 1), ("b", 0)))
BOUNDS = {A0: Bounds(10, 20), A1: Bounds(0, 5), B0: Bounds(7, 7)}
NOW_MS = 10_000_000
SINCE = AtTime(5)


@dataclass
class Broker:
    """A broker whose message at offset n was stored at n ms. Records the times of requests."""

    offsets: Mapping[MessageQueue, int] = field(default_factory=dict)
    asked_times: dict[MessageQueue, int] = field(default_factory=dict)

    def find_offsets_at(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        self.asked_times |= timestamps_ms
        return {
            queue: min(max(at, BOUNDS[queue].min_offset), BOUNDS[queue].max_offset)
            for queue, at in timestamps_ms.items()
        }

    def get_consumer_offsets(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        assert group == "g"
        return {queue: self.offsets.get(queue) for queue in queues}


def wanting(said: dict[Scope, OffsetSpec], option: str = "startingOffsets") -> RankedSpecs:
    return RankedSpecs({option: OffsetSpecs(said), "the default": OffsetSpecs({ALL_QUEUES: "latest"})})


def starts(starting: StartRules, broker: Broker | None = None) -> list[int]:
    found = starting.resolve(BOUNDS, broker or Broker(), NOW_MS)
    assert list(found) == [A0, A1, B0]
    return list(found.values())


@pytest.mark.parametrize(
    ("said", "begins"),
    [
        ({ALL_QUEUES: "earliest"}, [10, 0, 7]),
        ({ALL_QUEUES: "latest"}, [20, 5, 7]),
        ({("orders",): "earliest"}, [10, 0, 7]),
        ({A0: 12, A1: "earliest"}, [12, 0, 7]),
        ({A0: 10, A1: 5, B0: 7}, [10, 5, 7]),
        ({A0: 20}, [20, 5, 7]),
        ({}, [20, 5, 7]),
    ],
)
def test_words_and_numbers_become_offsets_without_a_request(said: dict[Scope, OffsetSpec], begins: list[int]) -> None:
    """Acceptance cases 4 and 58."""
    assert starts(StartRules(wanting(said))) == begins


@pytest.mark.parametrize(
    ("queue", "offset", "complaint"),
    [
        (A0, 9, "Option startingOffsets asks for offset 9 of queue orders/a/0, which has [10, 20)."),
        (A0, 21, "Option startingOffsets asks for offset 21 of queue orders/a/0, which has [10, 20)."),
        (B0, 8, "Option startingOffsets asks for offset 8 of queue orders/b/0, which has [7, 7)."),
        (B0, 6, "Option startingOffsets asks for offset 6 of queue orders/b/0, which has [7, 7)."),
    ],
)
def test_an_offset_that_does_not_exist_is_refused(queue: MessageQueue, offset: int, complaint: str) -> None:
    with pytest.raises(OptionError) as refused:
        starts(StartRules(wanting({queue: offset})))
    assert str(refused.value).startswith(complaint)


@pytest.mark.parametrize(
    ("said", "is_match_needed", "begins"),
    [
        ({A0: AtTime(15), A1: AtTime(2)}, True, [15, 2, 7]),
        ({A0: AtTime(0), A1: AtTime(0)}, True, [10, 0, 7]),
        ({A0: AtTime(19), A1: AtTime(4)}, True, [19, 4, 7]),
        ({ALL_QUEUES: AtTime(15)}, False, [15, 5, 7]),
        ({("orders",): AtTime(3), A0: 12}, False, [12, 3, 7]),
    ],
)
def test_times_become_the_first_offset_stored_then_or_later(
    said: dict[Scope, OffsetSpec], is_match_needed: bool, begins: list[int]
) -> None:
    """Acceptance cases 5 and 6; with strategy latest also case 10."""
    assert starts(StartRules(wanting(said), is_match_needed=is_match_needed)) == begins


@pytest.mark.parametrize(
    ("said", "queue", "timestamp_ms", "seen_and_advice"),
    [
        ({A0: AtTime(20)}, A0, 20, "none in [10, 20) was. Choose an earlier time, or set"),
        ({A1: AtTime(5)}, A1, 5, "none in [0, 5) was. Choose an earlier time, or set"),
        ({B0: AtTime(0)}, B0, 0, "the queue is empty. Set"),
    ],
)
def test_a_time_after_every_message_is_refused_with_queue_and_time(
    said: dict[Scope, OffsetSpec], queue: MessageQueue, timestamp_ms: int, seen_and_advice: str
) -> None:
    """Acceptance cases 10 and 47."""
    with pytest.raises(OptionError) as refused:
        starts(StartRules(wanting(said, "startingOffsetsByTimestamp")))
    assert str(refused.value) == (
        f"No offset matched from request of queue {queue} and timestamp {timestamp_ms}: option "
        f"startingOffsetsByTimestamp wants messages stored at {AtTime(timestamp_ms)} or later, and {seen_and_advice} "
        "startingOffsetsByTimestampStrategy to latest to start at the end of such queues."
    )


@pytest.mark.parametrize(
    ("where", "stored", "topic", "begin"),
    [
        (CONSUME_FROM_LAST_OFFSET, 3, "orders", 3),
        (CONSUME_FROM_LAST_OFFSET, 0, "orders", 0),
        (CONSUME_FROM_LAST_OFFSET, None, "orders", "latest"),
        (CONSUME_FROM_LAST_OFFSET, -1, "orders", "latest"),
        (CONSUME_FROM_LAST_OFFSET, None, "%RETRY%g", "earliest"),
        (CONSUME_FROM_FIRST_OFFSET, 3, "orders", 3),
        (CONSUME_FROM_FIRST_OFFSET, None, "orders", "earliest"),
        (CONSUME_FROM_FIRST_OFFSET, None, "%RETRY%g", "earliest"),
        (CONSUME_FROM_TIMESTAMP, 3, "orders", 3),
        (CONSUME_FROM_TIMESTAMP, None, "orders", SINCE),
        (CONSUME_FROM_TIMESTAMP, None, "%RETRY%g", "latest"),
        (CONSUME_FROM_TIMESTAMP, 3, "%RETRY%g", 3),
    ],
)
def test_a_group_begins_as_rocketmq_s_table_says(where: str, stored: int | None, topic: str, begin: OffsetSpec) -> None:
    """The table of rules 1.10."""
    assert compute_pull_from_where(topic, stored, where, SINCE) == begin


@pytest.mark.parametrize(
    ("where", "stored", "begins"),
    [
        (CONSUME_FROM_LAST_OFFSET, {A0: 12, A1: 0, B0: 7}, [12, 0, 7]),
        (CONSUME_FROM_LAST_OFFSET, {A0: 12}, [12, 5, 7]),
        (CONSUME_FROM_FIRST_OFFSET, {A0: 12}, [12, 0, 7]),
        # A group's time never fails: RocketMQ searches and takes the end where nothing is (rules 3.11).
        (CONSUME_FROM_TIMESTAMP, {}, [10, 5, 7]),
    ],
)
def test_group_starts_at_the_stored_offset_or_as_consume_from_where_says(
    where: str, stored: dict[MessageQueue, int], begins: list[int]
) -> None:
    starting = StartRules(wanting({ALL_QUEUES: "group"}), "g", where, consume_timestamp_ms=5)
    assert starts(starting, Broker(stored)) == begins


def test_one_queue_may_start_at_group() -> None:
    assert starts(StartRules(wanting({A0: "group", A1: 1}), "g"), Broker({A0: 12, A1: 3})) == [12, 1, 7]


def test_a_group_without_a_time_begins_half_an_hour_ago() -> None:
    broker = Broker()
    starts(StartRules(wanting({A0: "group"}), "g", CONSUME_FROM_TIMESTAMP), broker)
    assert broker.asked_times == {A0: NOW_MS - 30 * 60 * 1000}


@pytest.mark.parametrize(
    ("stored", "complaint"), [(9, "1 messages of queue orders/a/0 are lost"), (21, "ends at offset 20")]
)
def test_a_stored_offset_outside_its_queue_is_a_loss(stored: int, complaint: str) -> None:
    with pytest.raises(DataLoss, match=complaint):
        starts(StartRules(wanting({A0: "group"}), "g"), Broker({A0: stored}))


def test_a_queue_that_is_not_read_is_refused() -> None:
    with pytest.raises(OptionError, match="Option startingOffsets names orders/a/2, which this query does not read"):
        starts(StartRules(wanting({MessageQueue("orders", "a", 2): "latest"})))
