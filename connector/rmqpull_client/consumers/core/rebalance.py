"""Which queues a member of a group owns: what all members compute from the same lists (rules 1.4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rmqpull_client.allocation.strategies import Strategy
from rmqpull_client.model import MessageQueue


@dataclass(frozen=True)
class TopicShare:
    """What a round of rebalancing found for a topic: all its queues, sorted, and those of this member.

    ``mine`` is None if nothing is known, so nothing changes: no route, no list of members, or a strategy that refuses.
    ``problem`` says why.
    """

    topic: str
    queues: Sequence[MessageQueue]
    mine: frozenset[MessageQueue] | None
    problem: str = ""


@dataclass(frozen=True)
class Change:
    """What a round changes: queues that the member no longer owns, and new ones, sorted."""

    dropped: Sequence[MessageQueue]
    added: Sequence[MessageQueue]

    def __bool__(self) -> bool:
        return bool(self.dropped or self.added)


def share_topic(
    topic: str, queues: Collection[MessageQueue], members: Collection[str], client_id: str, strategy: Strategy
) -> TopicShare:
    """Computes the share of a member of a topic. ``members`` are the client ids of the group, in any order."""
    ordered = sorted(queues)
    if not ordered:
        return TopicShare(topic, ordered, None, f"topic {topic} has no queue that can be read")
    if client_id not in members:
        return TopicShare(topic, ordered, None, f"this member is not among the members of the group on topic {topic}")
    try:
        mine = strategy.allocate(client_id, ordered, sorted(members))
    except ValueError as error:
        return TopicShare(topic, ordered, None, f"the strategy cannot allocate the queues of topic {topic}: {error}")
    return TopicShare(topic, ordered, frozenset(mine))


def find_change(owned: Collection[MessageQueue], shares: Sequence[TopicShare], topics: Collection[str]) -> Change:
    """Compares shares with what the member owns. Queues of topics that are not among ``topics`` are dropped."""
    known: Mapping[str, frozenset[MessageQueue]] = {
        share.topic: share.mine for share in shares if share.mine is not None
    }
    dropped = sorted(
        queue
        for queue in owned
        if queue.topic not in topics or (queue.topic in known and queue not in known[queue.topic])
    )
    added = sorted(queue for mine in known.values() for queue in mine if queue not in owned)
    return Change(dropped, added)
