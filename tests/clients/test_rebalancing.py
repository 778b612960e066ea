"""Groups of Apache's push consumers whose members join, leave and are killed, while messages are sent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from processes.apache.many_clients import OneClient
from tests.harness.client_servers import Place, bodies_of
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
    """Rebalance: members of 4.9.8 and of 5.3.3 in one group share its queues, and consume each message once."""
    topic = place.create_topic(queues=4)
    members = [place.start("push", topic=topic), place.start("push", process=place.find_other_jvm(), topic=topic)]
    wait_for_shares(topic, members, ["01", "23"])
    sent = send(place, topic, 0)
    wait_until(lambda: sum(len(one.consumed) for one in members) >= len(sent), "all consumed")
    assert bodies_of(read for one in members for read in one.consumed) == sorted(sent)


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
