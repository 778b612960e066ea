"""Groups of Apache's push consumers whose members join, leave and are killed, while messages are sent."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from rmqpull_client.allocation.machine_room import MachineRoomNearby, MachineRoomResolver
from rmqpull_client.allocation.strategies import Averagely, AveragelyByCircle, ByConfig, ConsistentHash, Strategy
from rmqpull_client.model import MessageQueue
from rmqpull_proto.remoting.codes import RequestCode
from tests.clients.programs.java.many_clients import OneClient
from tests.harness.client_servers import BROKER, Place, bodies_of
from tests.harness.waiting import wait_until


@pytest.mark.small
def test_queues_are_shared_again_when_members_come_and_go(place: Place) -> None:
    """Rebalance: members join, leave and are killed, and queues are added. Nothing is lost, and AVG's shares hold."""
    topic = place.create_topic(queues=8)
    first = place.start("push", topic=topic)
    wait_for_shares(topic, [first], ["01234567"])
    sent = send(place, topic, 0)
    second = place.start("push", topic=topic)
    wait_for_shares(topic, [first, second], ["0123", "4567"])
    sent += send(place, topic, 1)
    doomed = place.start_jvm()
    third = place.start("push", process=doomed, topic=topic)
    wait_for_shares(topic, [first, second, third], ["012", "345", "67"])
    sent += send(place, topic, 2)
    place.shut_down(second)
    wait_for_shares(topic, [first, third], ["0123", "4567"])
    sent += send(place, topic, 3)
    doomed.kill()
    sent += send(place, topic, 4)
    wait_for_shares(topic, [first], ["01234567"])
    place.server.put_topic(topic, 10)
    wait_for_shares(topic, [first], ["0123456789"])
    sent += send(place, topic, 5)
    members = [first, second, third]
    wait_until(lambda: {read.body for one in members for read in one.consumed} == set(sent), "each message consumed")


def test_members_of_two_releases_share_the_queues(place: Place) -> None:
    """Rebalance: members of 4.9.8 and of 5.5.0 in one group share its queues, and consume each message once."""
    topic = place.create_topic(queues=4)
    members = [place.start("push", topic=topic), place.start("push", process=place.find_other_jvm(), topic=topic)]
    wait_for_shares(topic, members, ["01", "23"])
    sent = send(place, topic, 0)
    wait_for_count(members, len(sent))
    assert bodies_of(read for one in members for read in one.consumed) == sorted(sent)


def test_members_share_by_each_strategy_as_it_says(place: Place) -> None:
    """Rebalance: two members share by circle, by consistent hash, by lists of queues, and by machine rooms as
    `rmqpull_client.allocation` says for their ids. All queues have a member, and each message is consumed once."""
    topic = place.create_topic(queues=8)
    queues = [MessageQueue(topic, BROKER, queue) for queue in range(8)]
    groups = {strategy: start_two(place, topic, strategy) for strategy in ("circle", "hash", "config", "nearby")}
    for strategy, members in groups.items():
        ids = wait_for_ids(place, f"{place.group}-{strategy}")
        expected = [make_strategy(strategy, topic, ids).allocate(one, queues, ids) for one in ids]
        assert sorted(queue for share in expected for queue in share) == queues
        wait_for_shares(topic, members, ["".join(str(queue.queue_id) for queue in share) for share in expected])
    sent = send(place, topic, 0)
    for members in groups.values():
        wait_for_count(members, len(sent))
        assert bodies_of(read for one in members for read in one.consumed) == sorted(sent)


def start_two(place: Place, topic: str, strategy: str) -> list[OneClient]:
    """Starts two members of a group that share by a strategy. With rooms, only the second one is in the broker's."""
    group = f"{place.group}-{strategy}"
    names = [f"{group}-0", f"{group}-1"]
    rooms = {BROKER: "here", names[0]: "there", names[1]: "here"}
    return [
        place.start(
            "push",
            group,
            name=name,
            topic=topic,
            strategy=strategy,
            rooms=rooms,
            queues=[[topic, BROKER, queue] for queue in CONFIGURED[number]],
        )
        for number, name in enumerate(names)
    ]


def wait_for_ids(place: Place, group: str) -> list[str]:
    """Returns the sorted client ids of a group, when it has two members."""
    administration = place.administration
    (address,) = administration.find_masters().values()

    def list_ids() -> list[str]:
        answered = administration.call(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
        return sorted(json.loads(bytes(answered.body))["consumerIdList"])

    wait_until(lambda: len(list_ids()) == 2, f"two members of {group}")
    return list_ids()


def make_strategy(strategy: str, topic: str, ids: Sequence[str]) -> Strategy:
    """Returns the strategy of rmqpull that must give the same shares."""
    lists = zip(ids, CONFIGURED, strict=True)
    rooms = MachineRoomResolver({BROKER: "here"}, {ids[0]: "there", ids[1]: "here"})
    return {
        "circle": AveragelyByCircle(),
        "hash": ConsistentHash(),
        "config": ByConfig({one: [MessageQueue(topic, BROKER, queue) for queue in queues] for one, queues in lists}),
        "nearby": MachineRoomNearby(Averagely(), rooms),
    }[strategy]


CONFIGURED = ([0, 5, 6], [1, 2, 3, 4, 7])
"""The queues of the two members that share by lists."""


def wait_for_count(members: Sequence[OneClient], count: int) -> None:
    """Returns when the members have consumed this many messages."""
    wait_until(lambda: sum(len(one.consumed) for one in members) >= count, f"{count} messages consumed")


def wait_for_shares(topic: str, members: Sequence[OneClient], shares: Sequence[str]) -> None:
    """Returns when each member has the queues of its share, each queue a digit."""

    def find_shares() -> list[str]:
        return ["".join(str(queue) for _, _, queue in one.call("queues", topic=topic)) for one in members]

    wait_until(lambda: find_shares() == [*shares], f"shared as {shares}")


def send(place: Place, topic: str, step: int) -> list[str]:
    """Sends messages to all queues. Returns their bodies."""
    bodies = [f"{step}-{number}" for number in range(20)]
    place.send(topic, *bodies)
    return bodies
