"""Which offset spec of several options applies to a queue (rules 8.6)."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.planning.offset_specs import (
    ALL_QUEUES,
    AtTime,
    OffsetSpec,
    OffsetSpecs,
    RankedSpecs,
    Scope,
)
from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue

A0, A1, B0 = (MessageQueue("orders", broker, queue_id) for broker, queue_id in (("a", 0), ("a", 1), ("b", 0)))
ORDERS: Scope = ("orders",)
NOON = AtTime(1_772_366_400_000)


def test_a_queue_overrides_its_topic_which_overrides_all_queues() -> None:
    specs = OffsetSpecs({ALL_QUEUES: "latest", ORDERS: "earliest", A0: 12})
    found = [specs.find(place) for place in (A0, A1, ORDERS, MessageQueue("other", "a", 0), ALL_QUEUES)]
    assert found == [12, "earliest", "earliest", "latest", "latest"]
    assert OffsetSpecs({A0: 12}).find(A1) is None


OPTIONS = {
    "time": OffsetSpecs({ALL_QUEUES: NOON}),
    "times": OffsetSpecs({A0: AtTime(5)}),
    "offsets": OffsetSpecs({A0: 12, A1: 7}),
    "default": OffsetSpecs({ALL_QUEUES: "latest"}),
}


@pytest.mark.parametrize(
    ("names", "counts"),
    [
        (["time", "times", "offsets", "default"], [("time", NOON)] * 3),
        (["times", "offsets", "default"], [("times", AtTime(5)), ("offsets", 7), ("default", "latest")]),
        (["offsets", "default"], [("offsets", 12), ("offsets", 7), ("default", "latest")]),
        (["default"], [("default", "latest")] * 3),
    ],
)
def test_the_highest_rank_that_names_a_queue_applies(names: list[str], counts: list[tuple[str, OffsetSpec]]) -> None:
    """Acceptance case 49; a queue that a rank does not name follows the next one."""
    ranked = RankedSpecs({name: OPTIONS[name] for name in names})
    assert [ranked.find(queue) for queue in (A0, A1, B0)] == counts


@pytest.mark.parametrize(
    ("said", "unknown"),
    [
        ({MessageQueue("orders", "a", 2): 0}, "orders/a/2"),
        ({MessageQueue("orders", "c", 0): "latest"}, "orders/c/0"),
        ({MessageQueue("other", "a", 0): NOON}, "other/a/0"),
        ({("Orders",): "earliest"}, "Orders"),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(said: dict[Scope, OffsetSpec], unknown: str) -> None:
    """Acceptance case 59: a subset may be named, but nothing that does not exist."""
    with pytest.raises(OptionError) as refused:
        RankedSpecs({"startingOffsets": OffsetSpecs({A0: 0, ORDERS: "latest", **said})}).refuse_unknown_scopes(
            [A0, A1, B0]
        )
    assert str(refused.value) == (
        f"Option startingOffsets names {unknown}, which this query does not read. "
        "It reads orders/a/0, orders/a/1, orders/b/0."
    )
