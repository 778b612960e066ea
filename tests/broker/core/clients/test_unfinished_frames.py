"""Whose unfinished frames are no longer read when all together hold too much, and whose take too long."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from rmqpull_broker.core.clients.unfinished_frames import (
    BYTES_PER_S_MIN,
    FRAME_MS_MAX,
    HELD_BYTES_FULL,
    HELD_BYTES_MAX,
    READ_ON,
    SMALL_FRAME_BYTES,
    STEPS,
    UnfinishedFrames,
)

MIB = 1 << 20


def hold(*frames: tuple[str, int]) -> UnfinishedFrames[str]:
    """Frames of connections ``a1``, ``a2``, ``b1`` ..., each named after its address, with the MiB that they hold."""
    unfinished = UnfinishedFrames[str]()
    for key, mib in frames:
        unfinished.note(key, key[0], mib * MIB, 0)
    return unfinished


@pytest.mark.parametrize(
    ("frames", "paused"),
    [
        pytest.param([("a1", 100), ("a2", 100), ("a3", 56)], set(), id="as much as all may hold"),
        pytest.param([("a1", 100), ("a2", 100), ("a3", 57)], {"a3"}, id="a lone address holds too much"),
        pytest.param([("a1", 90), ("a2", 50), ("a3", 7), ("b1", 110)], {"a3"}, id="the address that holds most"),
        pytest.param([("a1", 257), ("a2", 0)], set(), id="its oldest frames are read on"),
        pytest.param(
            [("a1", 150), ("a2", 0), ("a3", 0), ("b1", 138), ("c1", 1)], {"a3", "b1"}, id="the reserve is used up"
        ),
        pytest.param(
            [("a1", 100), ("b1", 94), ("b2", 94), ("b3", 0), ("c1", 2)], {"a1", "b3", "c1"}, id="all but small ones"
        ),
    ],
)
def test_who_is_not_read_any_more(frames: list[tuple[str, int]], paused: set[str]) -> None:
    assert hold(*frames).paused == paused


def test_the_next_frame_is_read_when_an_older_one_has_ended() -> None:
    unfinished = hold(*((f"a{number}", 60) for number in range(6)))
    assert unfinished.paused == {"a2", "a3", "a4", "a5"}
    assert unfinished.remove("a1") == {"a2"}
    assert unfinished.remove("a0") == {"a3", "a4", "a5"}  # enough room


def test_all_are_read_again_when_others_have_left_room() -> None:
    unfinished = hold(("a1", 130), ("a2", 130))
    unfinished.remove("a2")
    assert not unfinished.paused
    assert unfinished.held_bytes == 130 * MIB


def test_a_small_frame_of_another_address_is_always_read() -> None:
    unfinished = hold(("a1", HELD_BYTES_MAX // MIB), ("a2", 40), ("a3", 1))
    unfinished.note("b1", "b", SMALL_FRAME_BYTES, 0)
    assert unfinished.paused == {"a3"}


def test_pieces_of_frames_do_not_change_whose_turn_it_is() -> None:
    """Two addresses hold about the same. What changes for a thousand connections costs a step of bytes."""
    unfinished, step = UnfinishedFrames[str](), HELD_BYTES_MAX // STEPS
    for number in range(1_000):
        for address in "ab":
            unfinished.note(f"{address}{number}", address, 130_000, 0)
    of_a, of_b = ({f"{address}{number}" for number in range(READ_ON, 1_000)} for address in "ab")
    unfinished.note("c1", "c", HELD_BYTES_MAX - unfinished.held_bytes, 0)
    assert unfinished.note("a0", "a", 130_001, 0) == of_a == unfinished.paused
    assert not any(unfinished.note("b0", "b", 130_001 + more, 0) for more in range(0, step + 1, step // 16))
    assert unfinished.note("b0", "b", 130_002 + step, 0) == of_a | of_b
    assert unfinished.paused == of_b
    assert unfinished.note("a0", "a", 0, 0) == set()
    assert unfinished.remove("c1") == of_b


KEYS = st.sampled_from([f"{address}{number}" for address in "abc" for number in range(READ_ON + 2)])


@given(st.lists(st.tuples(KEYS, st.integers(0, 4)), max_size=60))
def test_what_changes_is_told_and_small_frames_of_others_are_always_read(changes: list[tuple[str, int]]) -> None:
    unfinished, told = UnfinishedFrames[str](), set[str]()
    held: dict[str, int] = {}  # the oldest frame first
    for key, many in changes:
        if many:
            told ^= unfinished.note(key, key[0], many * 40 * MIB, 0)
            held[key] = many * 40 * MIB
        else:
            told ^= unfinished.remove(key)
            held.pop(key, None)
        assert told == unfinished.paused
        assert unfinished.held_bytes == sum(held.values())
        paused = {name[0] for name in unfinished.paused}
        of_address = {each: [name for name in held if name[0] == each] for each in "abc"}
        sums = {each: sum(held[name] for name in names) for each, names in of_address.items()}
        if unfinished.held_bytes > HELD_BYTES_MAX:
            most = [each for each in "abc" if sums[each] + HELD_BYTES_MAX // STEPS >= max(sums.values())]
            assert any(unfinished.paused & {*of_address[each]} == {*of_address[each][READ_ON:]} for each in most)
        if HELD_BYTES_MAX < unfinished.held_bytes <= HELD_BYTES_FULL - HELD_BYTES_MAX // STEPS:
            assert len(paused) <= 1
        if unfinished.held_bytes <= HELD_BYTES_MAX - HELD_BYTES_MAX // STEPS:
            assert not paused


@pytest.mark.parametrize(("held_bytes", "more_ms"), [(1, 0), (BYTES_PER_S_MIN, 1_000), (16 * MIB, 256_000)])
def test_a_frame_has_more_time_the_more_of_it_has_come(held_bytes: int, more_ms: int) -> None:
    unfinished = UnfinishedFrames[str]()
    unfinished.note("a1", "a", 1, 5)
    unfinished.note("a1", "a", held_bytes, 20_000)
    assert unfinished.list_late(5 + FRAME_MS_MAX + more_ms) == []
    assert unfinished.list_late(6 + FRAME_MS_MAX + more_ms) == ["a1"]


def test_the_next_frame_of_a_connection_has_its_own_time() -> None:
    unfinished = hold(("a1", 0))
    unfinished.remove("a1")
    unfinished.remove("a1")
    unfinished.note("a1", "a", 1, FRAME_MS_MAX)
    assert unfinished.list_late(2 * FRAME_MS_MAX) == []
