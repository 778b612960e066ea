"""Parked pulls wake like those of a simple model."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.filters.message_filter import EVERYTHING, TagFilter
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.parking import Arrivals, ParkedPull, ParkedPulls

FIRST, SECOND = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2))


def tagged(tag: str) -> TagFilter:
    return TagFilter(frozenset({tag}))


def arrivals(*tags: str | None) -> Arrivals:
    return Arrivals(batch=pa.record_batch({"tags": pa.array(tags, pa.string())}))


class Model:
    """The rules of parking, as a list that is looked through from end to end."""

    def __init__(self) -> None:
        self.pulls: dict[int, tuple[ParkedPull, int]] = {}
        self.behind: dict[int, int] = {}
        """Tickets of pulls that an arrival passed over, with the time of the check that wakes them."""

    def find_woken(self, queue: MessageQueue, tag: str, now_ms: int) -> set[int]:
        concerned = {ticket: pull for ticket, (pull, _) in self.pulls.items() if queue in pull.queues}
        woken = {ticket for ticket, pull in concerned.items() if pull.message_filter in (EVERYTHING, tagged(tag))}
        woken |= {ticket for ticket, pull in concerned.items() if pull.on_grid and pull.deadline_ms <= now_ms}
        for ticket in concerned.keys() - woken:
            self.behind.setdefault(ticket, (now_ms // 5_000 + 1) * 5_000)
        return woken

    def take_due(self, now_ms: int) -> set[int]:
        times_out = {ticket for ticket, (_, due_ms) in self.pulls.items() if due_ms <= now_ms}
        return times_out | {ticket for ticket, check_ms in self.behind.items() if check_ms <= now_ms}

    def remove(self, ticket: int) -> None:
        self.pulls.pop(ticket, None)
        self.behind.pop(ticket, None)


def on_grid_ms(now_ms: int, deadline_ms: int) -> int:
    return next(check for check in range(0, 10**6, 5_000) if check > now_ms and check >= deadline_ms)


queues = st.lists(st.sampled_from([FIRST, SECOND]), min_size=1, max_size=2)
filters = st.sampled_from([EVERYTHING, tagged("red"), tagged("blue")])
steps = st.one_of(
    st.tuples(st.just("park"), queues, filters, st.integers(0, 20_000), st.booleans()),
    st.tuples(st.just("arrive"), st.sampled_from([FIRST, SECOND]), st.sampled_from(["red", "green"])),
    st.tuples(st.just("pass"), st.integers(0, 6_000)),
    st.tuples(st.just("leave"), st.integers(0, 20)),
)


@given(st.lists(steps, max_size=40))
def test_parked_pulls_wake_like_those_of_a_simple_model(story: list[Any]) -> None:
    parked, model, now_ms = ParkedPulls(), Model(), 0
    for name, *details in story:
        woken: set[int] = set()
        if name == "park":
            waits_for, message_filter, timeout_ms, on_grid = details
            pull = ParkedPull(waits_for, message_filter, now_ms + timeout_ms, on_grid)
            due_ms = on_grid_ms(now_ms, pull.deadline_ms) if on_grid else pull.deadline_ms
            model.pulls[parked.park(pull, now_ms)] = (pull, due_ms)
        elif name == "arrive":
            woken = set(parked.find_woken(details[0], arrivals(details[1]), now_ms))
            assert woken == model.find_woken(details[0], details[1], now_ms)
        elif name == "leave":
            woken = {details[0]}
        else:
            now_ms += details[0]
            woken = set(parked.take_due(now_ms))
            assert woken == model.take_due(now_ms)
        for ticket in woken:
            parked.remove(ticket)
            model.remove(ticket)
        assert set(parked.list_all()) == set(model.pulls)
        # It may be asked too early, for a pull that was behind and has left, and never too late.
        next_ms = parked.next_due_ms()
        first_ms = min([due_ms for _, due_ms in model.pulls.values()] + [*model.behind.values()], default=None)
        assert next_ms == first_ms or (next_ms is not None and first_ms is not None and next_ms <= first_ms)
