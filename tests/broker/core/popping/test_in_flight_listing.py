"""Messages in flight, as people see them."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.model import Message, MessageQueue
from rmqpull_broker.core.popping import in_flight_listing as in_flight
from rmqpull_broker.core.popping.in_flight_listing import InFlightQuery, Listing, list_in_flight
from rmqpull_broker.core.pulling.consumer_offsets import read_group_progress
from rmqpull_broker.core.state.facts import OffsetsCommitted, Popped, PoppedInOrder, QueuesTrimmed
from tests.harness.core import CoreHarness

ORDERS, RETRIES = MessageQueue("orders", "broker-a", 0), MessageQueue("%RETRY%readers_orders", "broker-a", 0)


@pytest.fixture
def core() -> CoreHarness:
    """Group "readers" got three messages of "orders" and a retry, group "others" one message."""
    core = CoreHarness()
    core.topic()
    core.topic(name="%RETRY%readers_orders")
    core.send(*(Message(b"x", f"id-{number}", tags="a", keys=("k",)) for number in range(4)))
    core.send(Message(b"x", "id-9"), topic="%RETRY%readers_orders")
    core.state.apply(
        [
            Popped("readers", ORDERS, range(2), 1_000, 60_000),
            Popped("readers", ORDERS, range(3, 4), 2_000, 30_000),
            Popped("readers", RETRIES, range(1), 3_000, 10_000),
            Popped("others", ORDERS, range(1), 4_000, 10_000),
        ]
    )
    return core


def offsets(listing: Listing) -> list[tuple[str, str, int]]:
    return [
        (each.in_flight.group, each.in_flight.queue.topic, each.in_flight.queue_offset) for each in listing.messages
    ]


READERS = [("readers", "%RETRY%readers_orders", 0), *(("readers", "orders", offset) for offset in (0, 1, 3))]
OTHERS = [("others", "orders", 0)]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (InFlightQuery(), [*OTHERS, *READERS]),
        (InFlightQuery(groups={"readers"}), READERS),
        (InFlightQuery(topics={"orders"}), [*OTHERS, *READERS]),
        (InFlightQuery(topics={"%RETRY%readers_orders"}), READERS[:1]),
        (InFlightQuery(groups={"others"}, topics={"%RETRY%readers_orders"}), []),
        (InFlightQuery(groups={"nobody"}), []),
        (InFlightQuery(queue_id=1), []),
        (InFlightQuery(broker_name="broker-b"), []),
        (InFlightQuery({"others"}, {"orders"}, "broker-a", 0), OTHERS),
    ],
)
def test_messages_are_found_by_group_topic_and_queue(
    core: CoreHarness, query: InFlightQuery, found: list[tuple[str, str, int]]
) -> None:
    listing = list_in_flight(core.state, query)
    assert (offsets(listing), listing.total) == (found, len(found))


def test_a_topic_s_progress_includes_its_retries(core: CoreHarness) -> None:
    core.state.apply(
        [OffsetsCommitted("readers", ((ORDERS, 4), (RETRIES, 1))), OffsetsCommitted("others", ((ORDERS, 1),))]
    )
    found = [each for each in read_group_progress(core.state, (), {"orders"}) if each is not None]
    assert [(each.group, each.queue.topic, each.in_flight) for each in found if each.queue.queue_id == 0] == [
        ("others", "orders", 1),
        ("readers", "%RETRY%readers_orders", 1),
        ("readers", "orders", 3),
    ]
    assert {each.queue.topic for each in read_group_progress(core.state, (), {RETRIES.topic}) if each is not None} == {
        RETRIES.topic
    }


def test_a_message_is_shown_with_its_times_and_what_is_stored_of_it(core: CoreHarness) -> None:
    last = list_in_flight(core.state, InFlightQuery({"readers"})).messages[-1]
    assert (last.in_flight.pop_time_ms, last.in_flight.visible_ms, last.attempt) == (2_000, 32_000, 1)
    assert (last.stored.message.msg_id, last.stored.message.keys) == ("id-3", ("k",))


def test_a_listing_is_limited_and_tells_the_total(core: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    query = InFlightQuery({"readers"})
    assert (offsets(list_in_flight(core.state, query, 2)), list_in_flight(core.state, query, 2).total) == (
        READERS[:2],
        4,
    )
    monkeypatch.setattr(in_flight, "LISTED_MAX", 1)
    assert offsets(list_in_flight(core.state, query, 2)) == READERS[:1]


def test_a_listing_reads_some_megabytes_only() -> None:
    core = CoreHarness()
    core.topic()
    core.send(*(Message(bytes(3 << 20), f"id-{number}") for number in range(1)))
    core.send(*(Message(bytes(3 << 20), f"id-{number}") for number in range(1)))
    core.send(*(Message(bytes(3 << 20), f"id-{number}") for number in range(1)))
    core.state.apply([Popped("readers", ORDERS, range(3), 1_000, 60_000)])
    listing = list_in_flight(core.state, InFlightQuery())
    assert (len(listing.messages), listing.total) == (2, 3)


def test_what_retention_has_deleted_is_no_longer_in_flight(core: CoreHarness) -> None:
    core.state.apply([QueuesTrimmed(((ORDERS, 2),))])
    assert offsets(list_in_flight(core.state, InFlightQuery())) == [READERS[0], READERS[3]]


def test_deliveries_in_order_count_their_attempts() -> None:
    core = CoreHarness()
    core.topic()
    core.send(*(Message(b"x", f"id-{number}") for number in range(3)))
    batch = PoppedInOrder(
        "readers", ORDERS, (0, 1, 2), 1_000, 60_000, "", (2, 0, 0), acknowledged=(1,), visible_ms=((2, 5_000),)
    )
    core.state.apply([batch])
    listing = list_in_flight(core.state, InFlightQuery())
    told = [(each.in_flight.queue_offset, each.attempt, each.in_flight.visible_ms) for each in listing.messages]
    assert (told, listing.total) == ([(0, 3, 61_000), (2, 1, 5_000)], 2)
