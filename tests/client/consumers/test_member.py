"""A member of a group: what brokers learn of it, what it learns from them, and when they have forgotten it."""

from __future__ import annotations

import time

import pytest

from rmqpull_client.consumers import member as member_module
from rmqpull_client.consumers.member import Member
from rmqpull_client.errors import BrokerUnavailable
from tests.client.consumers.conftest import FROM_FIRST, Cluster, poll_all, wait_for_shares
from tests.harness.remoting_member import RemotingMember, make_membership
from tests.harness.waiting import wait_until


def get_member(consumer: object) -> Member:
    member = consumer._member  # type: ignore[attr-defined]
    assert isinstance(member, Member)
    return member


def test_brokers_know_a_member_until_it_leaves(cluster: Cluster) -> None:
    (queue,) = cluster.create_topic(1)
    with cluster.start_member() as consumer:
        identity = get_member(consumer)._identity
        assert identity.client_id.count("@") == 1
        assert get_member(consumer)._groups.list_members(cluster.group, [queue]) == [identity.client_id]
    assert get_member(consumer)._groups.list_members(cluster.group, [queue]) == []


def test_a_member_that_comes_without_a_client_of_ours_takes_its_share(cluster: Cluster) -> None:
    """The broker tells of it at once; a round of rebalancing would come only after 20 s."""
    queues = cluster.create_topic(2)
    with cluster.start_member() as consumer:
        channel = consumer._channel
        (address,) = channel.routes.get_route(cluster.topic).get_addresses("broker-a").values()
        with RemotingMember(address, "0-the-first") as other:
            other.beat(make_membership(cluster.group, cluster.topic))
            wait_for_shares([consumer], [1])
            assert consumer.assignment == {queues[1]}
        wait_for_shares([consumer], [2])


def test_a_member_that_brokers_have_forgotten_says_so_and_joins_again(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """As after code that held the interpreter for two minutes: whoever notices it first, the poll or the thread."""
    (queue,) = cluster.create_topic(1)
    cluster.send(b"0")
    with cluster.start_member() as consumer:
        poll_all(consumer, 1)
        member = get_member(consumer)
        member._clock = member._heartbeats._clock = lambda: time.monotonic() + 121
        assert [message.body for message in poll_all(consumer, 1)] == [b"0"]
        consumer.commit()
        assert consumer.get_committed(queue) == 1
    assert "The consumer has lost its queues, and joins again" in caplog.text


def test_offsets_are_not_set_while_brokers_have_forgotten_the_member(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (queue,) = cluster.create_topic(1)
    cluster.send(b"0")
    with cluster.start_member() as consumer:
        poll_all(consumer, 1)
        with monkeypatch.context() as patch:
            patch.setattr(Member, "is_forgotten", True)
            with pytest.raises(BrokerUnavailable, match="so the offsets were not set"):
                consumer.commit()
        assert consumer.get_committed(queue) is None


def test_a_thread_that_meets_an_error_goes_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic(1)
    monkeypatch.setattr(member_module, "AGAIN_S", 0.01)
    with cluster.start_member(FROM_FIRST) as consumer:
        with monkeypatch.context() as patch:
            patch.setattr(Member, "_rebalance", lambda self: 1 / 0)
            get_member(consumer).hurry()
            wait_until(lambda: "the member continues after an error" in caplog.text, "logged")
        cluster.create_topic(2)
        get_member(consumer).hurry()
        wait_for_shares([consumer], [2])


def test_a_cluster_that_accepts_no_member_is_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.create_topic(1)
    monkeypatch.setattr(member_module, "ANSWERED_WITHIN_S", 0.05)
    monkeypatch.setattr(Member, "_find_brokers", lambda self: [])
    with pytest.raises(BrokerUnavailable, match=r"No broker of the cluster at .* has accepted a heartbeat of consumer"):
        cluster.start_member()
