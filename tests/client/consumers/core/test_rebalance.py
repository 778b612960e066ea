"""What a round of rebalancing changes. The shares themselves are those of Apache's classes (tests of allocation)."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client import Averagely, AveragelyByCircle, ConsistentHash, MessageQueue, Strategy
from rmqpull_client.consumers.core.rebalance import Change, find_change, share_topic

QUEUES = [MessageQueue("orders", "a", queue_id) for queue_id in range(4)]
OTHER = MessageQueue("others", "a", 0)


def change(owned: Collection[MessageQueue], members: Collection[str], topics: Collection[str] = ("orders",)) -> Change:
    return find_change(owned, [share_topic("orders", QUEUES, members, "ann", Averagely())], topics)


@pytest.mark.parametrize(
    ("owned", "members", "dropped", "added"),
    [
        ([], ["ann"], [], [0, 1, 2, 3]),
        ([], ["bob", "ann"], [], [0, 1]),
        ([0, 1, 2, 3], ["bob", "ann"], [2, 3], []),
        ([0, 1], ["Zoe", "ann"], [0, 1], [2, 3]),  # capitals sort first
        ([0, 1], ["ann", "bob", "cid", "dan", "eve"], [1], []),
    ],
)
def test_queues_are_dropped_and_taken(
    owned: list[int], members: list[str], dropped: list[int], added: list[int]
) -> None:
    found = change([QUEUES[at] for at in owned], members)
    assert [queue.queue_id for queue in found.dropped] == dropped
    assert [queue.queue_id for queue in found.added] == added


def test_queues_of_a_topic_that_is_no_longer_subscribed_are_dropped() -> None:
    assert change([QUEUES[0], OTHER], ["ann"]).dropped == [OTHER]
    assert change([OTHER], [], ()).dropped == [OTHER]


@pytest.mark.parametrize(
    ("queues", "members", "problem"),
    [
        ([], ["ann"], "topic orders has no queue that can be read"),
        (QUEUES, [], "this member is not among the members of the group on topic orders"),
        (QUEUES, ["bob"], "this member is not among the members of the group on topic orders"),
    ],
)
def test_nothing_changes_while_nothing_is_known(queues: list[MessageQueue], members: list[str], problem: str) -> None:
    share = share_topic("orders", queues, members, "ann", Averagely())
    assert (share.mine, share.problem) == (None, problem)
    assert not find_change(QUEUES[:2], [share], ["orders"])


def test_nothing_changes_when_the_strategy_refuses() -> None:
    class Refusing(Strategy):
        def allocate_all(self, *arguments: object) -> dict[str, list[MessageQueue]]:
            raise ValueError("not today")

    share = share_topic("orders", QUEUES, ["ann"], "ann", Refusing())
    assert share.problem == "the strategy cannot allocate the queues of topic orders: not today"
    assert not find_change(QUEUES[:2], [share], ["orders"])


@given(
    st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=6, unique=True),
    st.sampled_from([Averagely(), AveragelyByCircle(), ConsistentHash()]),
    st.data(),
)
def test_members_with_the_same_lists_in_any_order_share_all_queues(
    members: list[str], strategy: Strategy, data: st.DataObject
) -> None:
    shares = [
        share_topic("orders", QUEUES[::-1], data.draw(st.permutations(members)), member, strategy).mine
        for member in members
    ]
    assert sorted(queue for share in shares for queue in share or ()) == QUEUES
