"""Where batch reads end, and starts that are after their end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from pyspark_rmqpull.planning.offset_specs import ALL_QUEUES, AtTime, OffsetSpec, OffsetSpecs, RankedSpecs, Scope
from pyspark_rmqpull.planning.starts_and_ends import refuse_start_after_end, refuse_start_offset_after_end, resolve_ends
from rmqpull_client.errors import OptionError
from rmqpull_client.model import Bounds, MessageQueue

A0, A1, B0 = (MessageQueue("orders", broker, queue_id) for broker, queue_id in (("a", 0), ("a", 1), ("b", 0)))
BOUNDS = {A0: Bounds(10, 20), A1: Bounds(0, 5), B0: Bounds(7, 7)}
TOPIC: Scope = ("orders",)


class Broker:
    """A broker whose message at offset n was stored at n ms, and that stores more messages meanwhile."""

    def find_offsets_at(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        return {queue: min(at, BOUNDS[queue].max_offset + 3) for queue, at in timestamps_ms.items()}

    def get_consumer_offsets(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        raise NotImplementedError


def side(option: str, said: dict[Scope, OffsetSpec], default: OffsetSpec = "latest") -> RankedSpecs:
    return RankedSpecs({option: OffsetSpecs(said), "the default": OffsetSpecs({ALL_QUEUES: default})})


@pytest.mark.parametrize(
    ("said", "ends"),
    [
        ({}, [20, 5, 7]),
        ({ALL_QUEUES: "latest"}, [20, 5, 7]),
        ({A0: 12, A1: 0}, [12, 0, 7]),
        ({A0: 20, A1: "latest", B0: 7}, [20, 5, 7]),
        ({ALL_QUEUES: AtTime(12)}, [12, 5, 7]),
        ({TOPIC: AtTime(4), A0: AtTime(0)}, [10, 4, 7]),
        ({ALL_QUEUES: AtTime(1_000)}, [20, 5, 7]),
    ],
)
def test_ends_are_offsets_within_the_bounds(said: dict[Scope, OffsetSpec], ends: list[int]) -> None:
    """A time without a message is the end, never an error (acceptance case 48)."""
    assert resolve_ends(side("endingOffsets", said), BOUNDS, Broker()) == dict(zip((A0, A1, B0), ends, strict=True))


@pytest.mark.parametrize(("queue", "offset"), [(A0, 9), (A0, 21), (B0, 8)])
def test_an_end_that_does_not_exist_is_refused(queue: MessageQueue, offset: int) -> None:
    with pytest.raises(OptionError, match=f"Option endingOffsets asks for offset {offset} of queue {queue}, which has"):
        resolve_ends(side("endingOffsets", {queue: offset}), BOUNDS, Broker())


def test_an_end_of_an_unknown_topic_is_refused() -> None:
    with pytest.raises(OptionError, match="Option endingOffsets names order, which this query does not read"):
        resolve_ends(side("endingOffsets", {("order",): "latest"}), BOUNDS, Broker())


@pytest.mark.parametrize(
    ("start", "end", "where"),
    [
        ({A0: 13}, {A0: 12}, "orders/a/0 at 13, after its end at 12"),
        ({A0: AtTime(2)}, {A0: AtTime(1)}, r"orders/a/0 at 1970-01-01T00:00:00\.002Z, after its end at 1970"),
        ({ALL_QUEUES: AtTime(2)}, {ALL_QUEUES: AtTime(1)}, "every queue at"),
        ({TOPIC: AtTime(2)}, {ALL_QUEUES: AtTime(1)}, "orders at"),
        ({ALL_QUEUES: AtTime(2)}, {A1: AtTime(1)}, "orders/a/1 at"),
    ],
)
def test_a_start_after_its_end_is_refused_without_a_request_when_both_are_of_one_kind(
    start: dict[Scope, OffsetSpec], end: dict[Scope, OffsetSpec], where: str
) -> None:
    with pytest.raises(OptionError, match=f"Options the start and the end start {where}"):
        refuse_start_after_end(side("the start", start), side("the end", end))


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ({A0: 12}, {A0: 12}),
        ({A0: 12}, {A1: 11}),
        ({A0: 12}, {A0: AtTime(11)}),
        ({A0: AtTime(12)}, {A0: 11}),
        ({ALL_QUEUES: AtTime(1)}, {ALL_QUEUES: AtTime(1)}),
        ({A0: 12}, {ALL_QUEUES: "latest"}),
    ],
)
def test_what_only_the_broker_can_compare_passes(start: dict[Scope, OffsetSpec], end: dict[Scope, OffsetSpec]) -> None:
    refuse_start_after_end(side("the start", start), side("the end", end))


def test_a_start_offset_after_its_end_is_refused_with_the_queue() -> None:
    refuse_start_offset_after_end({A0: 12, A1: 0}, {A0: 12, A1: 0})
    with pytest.raises(OptionError, match="Queue orders/a/1 starts at offset 3, after its end at offset 2"):
        refuse_start_offset_after_end({A0: 12, A1: 3}, {A0: 12, A1: 2})
