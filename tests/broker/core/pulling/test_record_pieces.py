"""Pieces of queues are encoded once for all pulls, and dropped by size, by use, and with their topic."""

from __future__ import annotations

from array import array

import pytest

from rmqpull_broker.core.admin.topics import delete_topic
from rmqpull_broker.core.filters.budget import FilterBudget
from rmqpull_broker.core.filters.message_filter import MessageFilter, SqlFilter, parse_tags
from rmqpull_broker.core.model import Message
from rmqpull_broker.core.pulling import record_pieces
from rmqpull_broker.core.pulling.record_pieces import PIECES_BYTES_MAX, RecordPiece, RecordPieces
from rmqpull_broker.core.state.facts import QueuesTrimmed
from tests.harness.core import CoreHarness


def make_core(queue_count: int = 1, messages: int = 10_000, body_bytes: int = 100) -> CoreHarness:
    core = CoreHarness()
    core.topic(queue_count)
    core.fill([bytes(body_bytes)] * messages, ["red" if number % 2 else "blue" for number in range(messages)])
    return core


def match(pieces: RecordPieces, piece: RecordPiece, message_filter: MessageFilter) -> array[int]:
    matches, end = pieces.find_matches(piece, message_filter, FilterBudget(message_filter), piece.first_offset)
    assert end == piece.end_offset
    return matches


def find(pieces: RecordPieces, core: CoreHarness, offset: int, queue_id: int = 0) -> RecordPiece:
    piece = pieces.find(core.queue(queue_id), offset)
    assert piece is not None
    assert piece.first_offset <= offset < piece.end_offset
    return piece


def test_readers_share_pieces_and_meet_where_they_end() -> None:
    core = make_core()
    pieces = RecordPieces(core.state)
    middle = find(pieces, core, 5_000)
    first = find(pieces, core, 0)
    assert find(pieces, core, 4_999).end_offset == middle.first_offset
    assert find(pieces, core, first.end_offset - 1) is first
    assert find(pieces, core, 5_000) is middle


def test_a_piece_ends_where_the_queue_ended_and_another_one_goes_on() -> None:
    core = make_core(messages=3)
    pieces = RecordPieces(core.state)
    before = find(pieces, core, 0)
    core.fill([b"more"])
    assert find(pieces, core, 3).first_offset == before.end_offset == 3
    assert find(pieces, core, 2) is before


def test_messages_that_have_just_arrived_are_encoded_without_columns() -> None:
    core = make_core(messages=3)
    pieces = RecordPieces(core.state)
    core.send(Message(b"new", "1", tags="red"), Message(b"newer", "2", tags="blue"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core.state.store, "read", None)
        piece = find(pieces, core, 3)
        assert list(match(pieces, piece, parse_tags("red"))) == [3]
    assert piece.end_offset == 5
    assert list(match(pieces, piece, SqlFilter("TAGS = 'blue'"))) == [4]
    assert list(match(pieces, find(pieces, core, 2), parse_tags("red"))) == []


def test_the_pieces_unused_for_longest_are_dropped() -> None:
    core = make_core(messages=200, body_bytes=1 << 18)
    pieces = RecordPieces(core.state)
    first = find(pieces, core, 0)
    for offset in range(0, 200, record_pieces.PULL_ROWS_MAX):
        find(pieces, core, offset)
        assert pieces.byte_count <= max(PIECES_BYTES_MAX, 2 * first.byte_count)
    assert find(pieces, core, 0) is not first


def test_pieces_become_smaller_until_those_of_all_queues_that_are_pulled_fit() -> None:
    core = make_core(queue_count=64, messages=64 * 2_000)
    pieces = RecordPieces(core.state)
    rounds = [[find(pieces, core, 0, queue_id) for queue_id in range(64)] for _ in range(4)]
    assert rounds[3] == rounds[2]
    assert rounds[0][0].byte_count > 2 * rounds[3][0].byte_count


def test_a_topic_that_was_created_again_has_other_pieces() -> None:
    core = make_core()
    pieces = RecordPieces(core.state)
    before = find(pieces, core, 0)
    core.run(lambda draft: delete_topic(draft, "orders"))
    core.topic()
    core.fill([b"new"])
    after = find(pieces, core, 0)
    assert (after.end_offset, len(pieces), pieces.byte_count) == (1, 1, after.byte_count)
    assert after is not before


def test_the_matches_of_a_filter_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_pieces, "MATCHES_MAX", 2)
    core = make_core(messages=6)
    pieces = RecordPieces(core.state)
    piece = find(pieces, core, 0)
    red = match(pieces, piece, parse_tags("red"))
    assert list(red) == [1, 3, 5]
    assert match(pieces, piece, parse_tags("red")) is red
    for tag in ("blue", "green"):
        match(pieces, piece, parse_tags(tag))
    assert pieces.byte_count == piece.byte_count
    core.state.apply([QueuesTrimmed(((core.queue(), 2),))])
    assert list(match(pieces, piece, parse_tags("red"))) == [3, 5]


def test_a_message_that_cannot_be_read_has_no_piece() -> None:
    core = make_core(messages=3)
    pieces = RecordPieces(core.state)
    rows = next(core.state.store.read(core.queue(), 1, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core.state.store, "read", lambda *_: iter([rows]))
        assert pieces.find(core.queue(), 0) is None
        patch.setattr(core.state.store, "read", lambda *_: iter([]))
        assert pieces.find(core.queue(), 0) is None
