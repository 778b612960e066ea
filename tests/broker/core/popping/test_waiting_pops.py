"""Which waiting pops an arrival wakes."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.core.filters.message_filter import parse_tags
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.popping import waiting_pops as waiting
from rmqpull_broker.core.popping.request import PopRequest
from rmqpull_broker.core.popping.waiting_pops import WaitingPops
from rmqpull_broker.core.pulling.parking import Arrivals
from rmqpull_broker.core.shares import find_holder

QUEUE = MessageQueue("orders", "broker-a", 1)


def a_pop(group: str = "readers", queue_id: int = -1, tags: str = "*", topic: str = "orders") -> PopRequest:
    return PopRequest(group, topic, "broker-a", queue_id, message_filter=parse_tags(tags))


def arrive(*tags: str) -> Arrivals:
    return Arrivals([StoredMessage(Message(b"x", "id", tags=tag), 0, 0, "here") for tag in tags])


def test_each_message_wakes_the_oldest_pop_of_each_group() -> None:
    pops = WaitingPops()
    readers = [pops.add(a_pop()) for _ in range(3)]
    others = [pops.add(a_pop("others")) for _ in range(2)]
    assert pops.take_woken(QUEUE, arrive("red", "red"), 2) == [*readers[:2], *others]
    assert pops.take_woken(QUEUE, arrive("red"), 1) == readers[2:]
    assert (len(pops), pops.has_pops_of(QUEUE)) == (0, False)


@pytest.mark.parametrize(
    ("pop", "wakes"),
    [
        (a_pop(), True),
        (a_pop(queue_id=1), True),
        (a_pop(queue_id=0), False),
        (a_pop(tags="red"), True),
        (a_pop(tags="blue"), False),
        (a_pop(topic="paid"), False),
    ],
)
def test_queue_and_filter_decide(pop: PopRequest, wakes: bool) -> None:
    pops = WaitingPops()
    ticket = pops.add(pop)
    assert pops.take_woken(QUEUE, arrive("red"), 1) == [ticket] * wakes
    assert len(pops) == (not wakes)


def test_pops_are_found_by_what_they_wait_for() -> None:
    pops = WaitingPops()
    first, second, third = pops.add(a_pop()), pops.add(a_pop()), pops.add(a_pop("others"))
    assert pops.take_oldest("orders", "broker-a", "readers") == [first]
    assert pops.take_all_of(["orders"], "readers") == [second]
    assert pops.take_oldest("orders", "broker-a", "readers") == []
    assert pops.take_all_of(["paid"]) == []
    assert pops.take_all_of(["orders"]) == [third]
    pops.remove(third)  # it is gone already


def test_too_many_pops_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "WAITING_POPS_OF_GROUP_MAX", 2)
    monkeypatch.setattr(waiting, "WAITING_POPS_MAX", 3)
    pops = WaitingPops()
    tickets = [pops.add(a_pop()) for _ in range(2)]
    with pytest.raises(TooManyRequests, match="polling full"):
        pops.add(a_pop())
    pops.add(a_pop("others"))
    with pytest.raises(TooManyRequests, match="polling full"):
        pops.add(a_pop("more"))
    pops.remove(tickets[0])
    pops.add(a_pop())


def test_a_connection_whose_pops_wait_leaves_places_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "WAITING_POPS_MAX", 16)
    pops, greedy, other = WaitingPops(), find_holder("10.0.0.1:5"), find_holder("10.0.0.1:6")
    for _ in range(16):
        pops.add(a_pop(), greedy)
    with pytest.raises(TooManyRequests, match="polling full"):
        pops.add(a_pop(), greedy)
    pops.add(a_pop(), other)
    pops.take_all_of(["orders"])
    pops.add(a_pop(), greedy)
