"""Clients: registration, heartbeats, commands, and termination (rules 5.7, 5.10, 5.14, 5.16)."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.clients.members import ClientChannel, ConsumerData
from rmqpull_broker.core.clients.settings import ClientProfile
from rmqpull_broker.core.clients.subscriptions import SubscriptionData
from rmqpull_broker.core.errors import TooManyRequests, UnrecognizedClientType
from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.core.shares import Shares, find_holder
from rmqpull_broker.server.clients import COMMANDS_WAITING_MAX, Clients
from rmqpull_broker.server.clock import ManualClock
from rmqpull_broker.server.questions import PrintThreadStack

READERS = GroupConfig("readers")
TWO_MINUTES_MS = 120_000


def producer(client_id: str, *topics: str) -> ClientProfile:
    return ClientProfile(ClientChannel(client_id, client_id), "PRODUCER", topics)


def consumer(client_id: str, client_type: str = "PUSH_CONSUMER") -> ClientProfile:
    data = ConsumerData("readers", (SubscriptionData("orders", "*", 0),))
    return ClientProfile(ClientChannel(client_id, client_id), client_type, consumer=data)


def members(clients: Clients, group: str = "readers") -> list[str]:
    info = clients.consumers.find_consumer_group(group)
    return [] if info is None else [channel.client_id for channel in info.channels]


def listed(clients: Clients) -> list[str]:
    return [client.channel.client_id for client in clients.list_clients()]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
def clients(clock: ManualClock) -> Clients:
    return Clients(clock)


def test_only_settings_register_a_client(clients: Clients) -> None:
    with pytest.raises(UnrecognizedClientType, match=r"^cannot find client settings for this client$"):
        clients.find_profile("ann")
    clients.introduce(producer("ann"), [])
    assert clients.find_profile("ann") == producer("ann")
    assert listed(clients) == ["ann"]


def test_a_client_of_another_type_is_not_recognized(clients: Clients) -> None:
    clients.introduce(ClientProfile(ClientChannel("ann", "ann"), "LITE_PUSH_CONSUMER", ("orders",)), [])
    with pytest.raises(UnrecognizedClientType, match=r"^LITE_PUSH_CONSUMER$"):
        clients.find_profile("ann")


def test_newer_settings_replace_older_ones(clients: Clients) -> None:
    clients.introduce(producer("ann", "orders"), [])
    clients.introduce(producer("ann", "orders", "clicks"), [])
    assert clients.find_profile("ann").topics == ("orders", "clicks")
    assert clients.producers.groups() == ["clicks", "orders"]


def test_a_consumer_of_a_missing_group_is_registered_without_membership(clients: Clients) -> None:
    clients.introduce(consumer("ann"), [])
    clients.refresh(clients.find_profile("ann"), None)
    assert members(clients) == []


def test_heartbeats_keep_a_client_and_its_subscriptions(clients: Clients, clock: ManualClock) -> None:
    clients.introduce(consumer("ann"), [READERS])
    clients.introduce(producer("bob", "orders"), [])
    for _ in range(30):
        clock.advance(10_000)
        clients.refresh(clients.find_profile("ann"), READERS)
        clients.refresh(clients.find_profile("bob"), None)
    info = clients.consumers.find_consumer_group("readers")
    assert info is not None
    assert (members(clients), list(info.subscriptions)) == (["ann"], ["orders"])
    assert clients.producers.groups() == ["orders"]


def test_a_heartbeat_may_name_another_group(clients: Clients) -> None:
    clients.introduce(consumer("ann"), [READERS])
    clients.refresh(clients.find_profile("ann"), GroupConfig("others"))
    assert members(clients) == members(clients, "others") == ["ann"]


class OtherClock:
    """A clock that is not manual for the clients, and that a test moves all the same."""

    def __init__(self, clock: ManualClock) -> None:
        self.wall_ms, self.passing_ms, self.call_at = clock.wall_ms, clock.passing_ms, clock.call_at
        self.steady_ms = clock.steady_ms


def test_a_client_that_is_silent_for_two_minutes_expires_at_the_next_scan(clock: ManualClock) -> None:
    clients = Clients(OtherClock(clock))
    clients.introduce(consumer("ann"), [READERS])
    clients.introduce(producer("bob", "orders"), [])
    stream = clients.open_stream("ann")
    clock.advance(TWO_MINUTES_MS)
    assert listed(clients) == ["ann", "bob"]
    assert stream.takes_commands
    clock.advance(10_000)
    assert (listed(clients), members(clients), clients.producers.groups()) == ([], [], [])
    assert not stream.takes_commands


def test_with_a_manual_clock_a_client_stays_while_it_has_a_stream(clients: Clients, clock: ManualClock) -> None:
    for profile in (consumer("ann"), producer("bob", "orders"), consumer("eve")):
        clients.introduce(profile, [READERS])
    streams = [clients.open_stream(client_id) for client_id in ("ann", "bob")]
    clock.advance(60 * TWO_MINUTES_MS)
    assert (listed(clients), members(clients), clients.producers.groups()) == (["ann", "bob"], ["ann"], ["orders"])
    assert all(stream.takes_commands for stream in streams)
    for stream in streams:
        clients.close_stream(stream)
    clock.advance(TWO_MINUTES_MS + 10_000)
    assert (listed(clients), members(clients), clients.producers.groups()) == ([], [], [])


def test_clients_are_not_scanned_after_the_end(clients: Clients, clock: ManualClock) -> None:
    clients.introduce(consumer("ann"), [READERS])
    clients.close()
    clock.advance(10 * TWO_MINUTES_MS)
    assert members(clients) == ["ann"]


@pytest.mark.proves("NotifyClientTermination")
def test_a_client_that_terminates_is_removed_everywhere(clients: Clients) -> None:
    clients.introduce(consumer("ann"), [READERS])
    clients.refresh(clients.find_profile("ann"), GroupConfig("others"))
    clients.introduce(consumer("bob"), [READERS])
    clients.introduce(producer("eve", "orders", "clicks"), [])
    clients.terminate("ann", READERS)
    clients.terminate("eve", None)
    assert (members(clients), members(clients, "others"), clients.producers.groups()) == (["bob"], [], [])
    assert listed(clients) == ["bob"]


def test_clients_have_a_limit_and_leaving_makes_room(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    clients._client_shares = Shares(1)
    clients.introduce(producer("ann"), [])
    with pytest.raises(TooManyRequests, match="too many clients are connected: 1 of"):
        clients.introduce(producer("bob"), [])
    clients.introduce(producer("ann"), [])
    clients.terminate("ann", None)
    clients.introduce(producer("bob"), [])
    assert listed(clients) == ["bob"]


def test_clients_are_not_scanned_when_there_are_none(clients: Clients, clock: ManualClock) -> None:
    assert clock.next_due_ms() is None
    clients.introduce(consumer("ann"), [READERS])
    assert clock.next_due_ms() == 10_000
    clock.advance(TWO_MINUTES_MS + 10_000)
    assert clock.next_due_ms() is None
    clients.introduce(producer("ann", "orders"), [])
    assert clock.next_due_ms() == TWO_MINUTES_MS + 20_000


# --- streams ----------------------------------------------------------------------------------------------------------


def test_commands_reach_the_newest_stream_of_a_client(clients: Clients) -> None:
    assert not clients.send("ann", PrintThreadStack("nobody listens"))
    older, newer = clients.open_stream("ann"), clients.open_stream("ann")
    assert clients.send("ann", PrintThreadStack("hello"))
    clients.close_stream(older)  # commands go to the newest stream
    assert clients.send("ann", PrintThreadStack("hello again"))
    clients.close_stream(newer)
    assert not clients.send("ann", PrintThreadStack("nobody listens any more"))


def test_streams_have_a_limit_and_closing_makes_room(clients: Clients) -> None:
    clients._stream_shares = Shares(1)
    stream = clients.open_stream("ann")
    with pytest.raises(TooManyRequests, match="telemetry streams are open: 1 of"):
        clients.open_stream("ann")
    for _ in range(2):
        clients.close_stream(stream)
    clients.open_stream("bob")
    assert clients.send("bob", PrintThreadStack("hello"))


def test_an_address_that_has_most_clients_leaves_room_for_others(clients: Clients) -> None:
    clients._client_shares = Shares(160)
    for number in range(177):
        clients.take_settings(producer(f"ann-{number}", "orders"), find_holder(f"10.0.0.1:{number}"))
    with pytest.raises(TooManyRequests, match="177 from its address, whose share is used up"):
        clients.take_settings(producer("ann", "orders"), find_holder("10.0.0.1:177"))
    clients.take_settings(producer("bob", "orders"), find_holder("10.0.0.2:1"))
    for number in range(3):
        clients.terminate(f"ann-{number}", None)
    clients.take_settings(producer("ann", "orders"), find_holder("10.0.0.1:177"))


def test_an_address_that_has_most_streams_leaves_some_for_others(clients: Clients) -> None:
    clients._stream_shares = Shares(160)
    for port in range(177):
        clients.open_stream("ann", find_holder(f"10.0.0.1:{port}"))
    with pytest.raises(TooManyRequests, match="177 from its address, whose share is used up"):
        clients.open_stream("ann", find_holder("10.0.0.1:177"))
    clients.open_stream("bob", find_holder("10.0.0.2:1"))


def next_producers(clients: Clients) -> set[str]:
    found = (clients.next_producer("orders", "broker-a") for _ in range(6))
    return {channel.client_id for channel in found if channel is not None}


def test_producers_of_a_topic_are_asked_in_turn_while_they_are_reachable(clients: Clients) -> None:
    for client_id in ("ann", "bob", "eve"):
        clients.introduce(producer(client_id, "orders"), [])
    assert clients.next_producer("orders", "broker-a") is None
    streams = {client_id: clients.open_stream(client_id) for client_id in ("ann", "bob")}
    assert next_producers(clients) == {"ann", "bob"}
    for _ in range(COMMANDS_WAITING_MAX):
        streams["ann"].offer("ignored")
    assert next_producers(clients) == {"bob"}
    assert clients.next_producer("clicks", "broker-a") is None


def test_a_client_without_stream_stays_a_member(clients: Clients) -> None:
    clients.introduce(consumer("ann"), [READERS])
    clients.close_stream(clients.open_stream("ann"))
    assert members(clients) == ["ann"]
