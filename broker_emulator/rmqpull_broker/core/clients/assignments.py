"""QUERY_ASSIGNMENT: the broker shares the queues of a topic among the members of a group (rules 2.1 to 2.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rmqpull_broker.core.model import MessageQueue

Allocate = Callable[[Sequence[MessageQueue], int, int], Sequence[MessageQueue]]
"""Returns the share of the member at an index among a number of members."""


def _allocate_blocks(queues: Sequence[MessageQueue], index: int, count: int) -> Sequence[MessageQueue]:
    """AVG: contiguous blocks, of which the first ones have one queue more if there is a remainder (rules 2.2)."""
    size, more = divmod(len(queues), count)
    start = index * size + min(index, more)
    return queues[start : start + size + (index < more)]


def _allocate_in_turn(queues: Sequence[MessageQueue], index: int, count: int) -> Sequence[MessageQueue]:
    """AVG_BY_CIRCLE: the queues are dealt out one by one, in turn (rules 2.3)."""
    return queues[index::count]


_ALL_QUEUES = -1
_STRATEGIES: Mapping[str, Allocate] = {"AVG": _allocate_blocks, "AVG_BY_CIRCLE": _allocate_in_turn}


def assign_queues(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str, strategy: str
) -> Sequence[MessageQueue] | None:
    """Returns the share of one member of a group; nothing for a client that is not a member.

    None means that the client keeps what it has (rules 2.1): there are no queues or no members, it has no id, or the
    broker does not know the strategy.
    """
    allocate, members = _STRATEGIES.get(strategy), sorted(client_ids)
    if allocate is None or not queues or not members or not client_id:
        return None
    return allocate(sorted(queues), members.index(client_id), len(members)) if client_id in members else ()


def assign_queues_to_pop(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str, strategy: str, share: int
) -> Sequence[MessageQueue] | None:
    """Returns the queues that one member of a group pops: its own, and those of ``share`` members after it.

    If ``share`` is 0 or less, or covers all other members, the result is queue id -1 of each broker, which stands for
    all its queues. With more members than queues, it is one queue. None as in :func:`assign_queues` (rules 3.17.1).
    """
    members, ordered = sorted(client_ids), sorted(queues)
    if strategy not in _STRATEGIES or not queues or not members:
        return None
    if share <= 0 or share >= len(members) - 1:
        return sorted({queue._replace(queue_id=_ALL_QUEUES) for queue in queues})
    if not client_id:
        return None
    if client_id not in members:
        return ()
    index = members.index(client_id)
    if len(members) > len(queues):
        return [ordered[index % len(ordered)]]
    sharing = (members[(index + step) % len(members)] for step in range(share + 1))
    return sorted({queue for member in sharing for queue in assign_queues(ordered, members, member, strategy) or ()})
