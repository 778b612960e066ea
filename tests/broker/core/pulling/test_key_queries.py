"""Messages by their place, their keys and their ids (rules 4.6)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from rmqpull_broker.core.admin.topics import delete_topic
from rmqpull_broker.core.model import Message
from rmqpull_broker.core.pulling import key_queries
from rmqpull_broker.core.pulling.key_queries import Found, KeyQuery, cut_to_bytes, find_message, search
from tests.harness.core import CoreHarness

FIRST_MS = 1_000
ALL = KeyQuery("orders", "k", 64, 0, 1 << 62)


@pytest.fixture
def filled(core: CoreHarness) -> CoreHarness:
    """Nine messages in three queues, stored a millisecond apart, each with key ``k`` and one of its own."""
    core.topic(3)
    for number in range(9):
        core.now_ms = FIRST_MS + number
        core.send(Message(b"%d" % number, f"id-{number}", keys=("k", f"own-{number}")))
    return core


def find(core: CoreHarness, query: KeyQuery) -> list[int]:
    """Returns the numbers of the messages that a query finds."""
    *_, last = [[], *search(core.state, "broker-a", query)]
    return [found.store_timestamp_ms - FIRST_MS for found in last]


@pytest.mark.proves("QUERY_MESSAGE")
@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        (ALL, range(9)),
        (ALL._replace(count_max=2), [7, 8]),
        (ALL._replace(count_max=0), []),
        (ALL._replace(key="own-5"), [5]),
        (ALL._replace(key="id-5"), [5]),
        (ALL._replace(key="own"), []),
        (ALL._replace(key="k own-5"), []),
        (ALL._replace(key=""), []),
        (ALL._replace(topic="unknown"), []),
        (ALL._replace(begin_ms=FIRST_MS + 4), range(4, 9)),
        (ALL._replace(end_ms=FIRST_MS + 4), range(5)),
        (ALL._replace(begin_ms=FIRST_MS + 4, end_ms=FIRST_MS + 4), [4]),
        (ALL._replace(begin_ms=FIRST_MS + 4, end_ms=FIRST_MS + 3), []),
        (ALL._replace(begin_ms=-(1 << 63), end_ms=(1 << 63) - 1), range(9)),
        (ALL._replace(begin_ms=(1 << 63) - 1), []),
    ],
)
def test_the_newest_messages_with_a_key_are_found_in_order(
    filled: CoreHarness, query: KeyQuery, numbers: Iterable[int]
) -> None:
    assert find(filled, query) == [*numbers]


def test_a_message_is_found_once_even_if_its_key_is_its_id(core: CoreHarness) -> None:
    core.topic()
    core.send(Message(b"x", "k", keys=("k", "k")))
    assert find(core, ALL) == [0]


def test_slices_give_the_same_as_one_piece(filled: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_queries, "_SLICE_ROWS", 2)
    assert find(filled, ALL) == [*range(9)]
    assert find(filled, ALL._replace(count_max=4)) == [5, 6, 7, 8]


def test_a_query_ends_with_the_slice_in_which_it_has_looked_at_enough(
    filled: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_queries, "ROWS_MAX", 4)
    monkeypatch.setattr(key_queries, "_SLICE_ROWS", 2)
    assert find(filled, ALL) == [0, 3, 4, 6, 7]


def test_a_message_is_found_by_its_physical_offset(filled: CoreHarness) -> None:
    place = filled.state.physical_offsets.find(filled.queue(1), 2)
    record = find_message(filled.state, "broker-a", place)
    assert record is not None
    assert int.from_bytes(record[28:36], "big") == place
    assert b"own-7" in record
    for other in (place + 1, place ^ 1 << 45, -1, 0):
        assert find_message(filled.state, "broker-a", other) is None


def test_a_message_of_a_deleted_topic_is_not_found(filled: CoreHarness) -> None:
    place = filled.state.physical_offsets.find(filled.queue(1), 2)
    filled.run(lambda draft: delete_topic(draft, "orders"))
    assert find_message(filled.state, "broker-a", place) is None


@pytest.mark.parametrize(("sizes", "count"), [((4, 4, 4), 2), ((4, 4), 2), ((1, 9), 1), ((9,), 1), ((), 0)])
def test_a_response_has_the_newest_messages_that_fit(sizes: tuple[int, ...], count: int) -> None:
    found = [Found(number, 0, bytes(size << 20)) for number, size in enumerate(sizes)]
    assert cut_to_bytes(found) == found[len(found) - count :]
