"""Groups whose members come, go and are killed while they consume: no message is missed, and shares are even."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from rmqpull_broker.server.remoting.wire.queue_bodies import QueueOfBroker
from rmqpull_broker.testing import RunningBroker, running_broker
from tests.harness.remoting_group import TOPIC, GroupConsumer

STEPS = 40
LOCK_LIVES_S = 61


class Group:
    """A group that a test takes through changes."""

    def __init__(self, broker: RunningBroker, *, in_order: bool) -> None:
        self.broker = broker
        self.members: list[GroupConsumer] = []
        self._in_order = in_order
        self._names = iter(range(1_000))
        self._sent = 0
        self.stories: defaultdict[QueueOfBroker, list[int]] = defaultdict(list)
        """What the group has consumed of each queue."""

    def add_member(self) -> None:
        self.members.append(GroupConsumer(self.broker, f"member {next(self._names):03}", in_order=self._in_order))

    def leave(self, member: GroupConsumer) -> None:
        member.leave()
        self.members.remove(member)

    def kill(self, member: GroupConsumer) -> None:
        member.kill()
        self.members.remove(member)

    def send(self, count: int) -> None:
        self.broker.send(TOPIC, *(b"%d" % number for number in range(self._sent, self._sent + count)))
        self._sent += count

    def add_queues(self, count: int) -> None:
        self.broker.create_topic(TOPIC, len(self.broker.bounds(TOPIC)) + count)

    def consume(self) -> None:
        for member in self.members:
            member.rebalance()
        for member in self.members:
            for queue, bodies in member.consume().items():
                self.stories[queue] += map(int, bodies)

    def settle(self) -> None:
        """Two rounds: one gives up queues, the next one takes them. Locks of killed members live for a minute."""
        self.consume()
        self.broker.clock.advance(seconds=LOCK_LIVES_S)
        for member in self.members:
            member.beat()
        for _ in range(2):
            self.consume()

    def shares(self) -> list[int]:
        return [len(member.queues) for member in self.members]

    def consumed(self) -> Counter[int]:
        return Counter(number for numbers in self.stories.values() for number in numbers)

    def missed(self) -> set[int]:
        return set(range(self._sent)) - set(self.consumed())


@pytest.fixture(params=[False, True], ids=["concurrently", "in order"])
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    with running_broker({TOPIC: 4}, remoting=True, clock="manual") as broker:
        opened = Group(broker, in_order=request.param)
        yield opened
        for member in opened.members:
            member.kill()


def test_members_share_the_queues_evenly_whoever_comes_and_goes(group: Group) -> None:
    for count in range(3):
        group.add_member()
        group.settle()
        assert group.shares() == [[4], [2, 2], [2, 1, 1]][count]
    group.add_queues(3)
    group.settle()
    assert group.shares() == [3, 2, 2]
    group.leave(group.members[0])
    group.settle()
    assert group.shares() == [4, 3]
    group.kill(group.members[1])
    group.settle()
    assert group.shares() == [7]


def test_a_member_that_joins_takes_over_where_another_one_was(group: Group) -> None:
    group.add_member()
    group.send(8)
    group.settle()
    group.add_member()
    group.settle()
    group.send(8)
    group.settle()
    assert group.consumed() == Counter(range(16))


@pytest.mark.parametrize("seed", range(4))
def test_no_message_is_missed_in_a_random_story(group: Group, seed: int) -> None:
    chance = random.Random(seed)
    group.add_member()
    for _ in range(STEPS):
        group.send(chance.randrange(6))
        action = chance.choice(("join", "leave", "kill", "queues", "consume", "consume", "wait"))
        if action == "join":
            group.add_member()
        elif action in ("leave", "kill") and len(group.members) > 1:
            (group.leave if action == "leave" else group.kill)(chance.choice(group.members))
        elif action == "queues":
            group.add_queues(1)
        elif action == "wait":
            group.settle()
        group.consume()
    group.settle()
    assert group.missed() == set()
    assert max(group.shares()) - min(group.shares()) <= 1


def test_a_group_repeats_nothing_and_keeps_the_order_while_nobody_is_killed() -> None:
    chance = random.Random(7)
    with running_broker({TOPIC: 4}, remoting=True, clock="manual") as broker:
        group = Group(broker, in_order=True)
        group.add_member()
        for _ in range(STEPS):
            group.send(chance.randrange(6))
            if chance.random() < 0.2:
                group.add_member()
            elif chance.random() < 0.3 and len(group.members) > 1:
                group.leave(chance.choice(group.members))
            group.consume()
        group.settle()
        assert group.missed() == set()
        assert set(group.consumed().values()) == {1}
        assert all(numbers == sorted(numbers) for numbers in group.stories.values())
        for member in group.members:
            member.kill()
