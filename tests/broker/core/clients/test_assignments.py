"""How a broker shares queues among members."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.clients.assignments import assign_queues, assign_queues_to_pop
from rmqpull_broker.core.model import MessageQueue

QUEUES = [MessageQueue("orders", broker, queue_id) for queue_id in range(4) for broker in ("b", "a")]
MEMBERS = ["bob", "eve", "ann"]


@pytest.mark.parametrize(
    ("strategy", "shares"),
    [
        ("AVG", [["a0", "a1", "a2"], ["a3", "b0", "b1"], ["b2", "b3"]]),
        ("AVG_BY_CIRCLE", [["a0", "a3", "b2"], ["a1", "b0", "b3"], ["a2", "b1"]]),
    ],
)
def test_shares_are_those_of_apaches_strategies(strategy: str, shares: list[list[str]]) -> None:
    for client_id, expected in zip(sorted(MEMBERS), shares, strict=True):
        found = assign_queues(QUEUES, MEMBERS, client_id, strategy)
        assert [f"{queue.broker_name}{queue.queue_id}" for queue in found or ()] == expected


def test_more_members_than_queues() -> None:
    shares = [assign_queues(QUEUES[:2], MEMBERS, client_id, "AVG") for client_id in sorted(MEMBERS)]
    assert [len(share or ()) for share in shares] == [1, 1, 0]


@pytest.mark.parametrize(
    ("queues", "members", "client_id", "strategy", "expected"),
    [
        (QUEUES, MEMBERS, "stranger", "AVG", ()),
        ([], MEMBERS, "ann", "AVG", None),
        (QUEUES, [], "ann", "AVG", None),
        (QUEUES, MEMBERS, "", "AVG", None),
        (QUEUES, MEMBERS, "ann", "CONFIG", None),
    ],
)
def test_a_stranger_gets_nothing_and_what_cannot_be_shared_stays_as_it_is(
    queues: list[MessageQueue], members: list[str], client_id: str, strategy: str, expected: tuple[()] | None
) -> None:
    assert assign_queues(queues, members, client_id, strategy) == expected


@pytest.mark.parametrize(
    ("share", "shares"),
    [
        (0, [["a-1", "b-1"]] * 3),
        (-1, [["a-1", "b-1"]] * 3),
        (2, [["a-1", "b-1"]] * 3),
        (1, [["a0", "a1", "a2", "a3", "b0", "b1"], ["a3", "b0", "b1", "b2", "b3"], ["a0", "a1", "a2", "b2", "b3"]]),
    ],
)
def test_members_that_pop_share_queues(share: int, shares: list[list[str]]) -> None:
    for client_id, expected in zip(sorted(MEMBERS), shares, strict=True):
        found = assign_queues_to_pop(QUEUES, MEMBERS, client_id, "AVG", share)
        assert [f"{queue.broker_name}{queue.queue_id}" for queue in found or ()] == expected


def test_more_members_than_queues_pop_one_each() -> None:
    members = ["ann", "bob", "eve", "ian"]
    found = [assign_queues_to_pop(QUEUES[:2], members, client_id, "AVG", 1) for client_id in members]
    assert [[queue.broker_name for queue in share or ()] for share in found] == [["a"], ["b"], ["a"], ["b"]]
    assert assign_queues_to_pop(QUEUES[:2], members, "stranger", "AVG", 1) == ()
    assert assign_queues_to_pop(QUEUES[:2], members, "", "AVG", 1) is None
    assert assign_queues_to_pop([], members, "ann", "AVG", 0) is None
