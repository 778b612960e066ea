"""A broker that is not busy returns what it has freed to the system."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rmqpull_broker.lean import BUSY_S, FREED_BYTES_MIN, FreedMemory, find_freed_memory

MIB = 1 << 20


class Process:
    """A process with memory that is used and memory that is free, which looks once a second."""

    def __init__(self) -> None:
        self.used, self.free, self.busy_s, self.trims = 80 * MIB, 0, 0.0, 0
        self.held_up = 0
        self.freed = FreedMemory(
            lambda: self.used + self.free, lambda: self.used, self._forget, self._trim, lambda: self.busy_s
        )

    def _forget(self) -> None:
        self.held_up = 0

    def _trim(self) -> None:
        self.free = self.held_up
        self.trims += 1

    def look(self, busy_s: float = 0.0) -> int:
        """Lets a second pass. Returns how often memory was returned until now."""
        self.busy_s += busy_s
        self.freed.look()
        return self.trims


def test_memory_that_was_freed_is_returned_once() -> None:
    process = Process()
    process.free = 300 * MIB
    assert process.look() == 1
    assert process.look() == 1
    process.free = FREED_BYTES_MIN - 1
    assert process.look() == 1
    process.free += 1
    assert process.look() == 2


def test_what_can_be_made_again_holds_up_no_memory() -> None:
    process = Process()
    process.free = process.held_up = 300 * MIB
    assert process.look() == 1
    assert process.free == 0


def test_a_busy_broker_keeps_it_until_it_is_not_busy() -> None:
    process = Process()
    process.free = 300 * MIB
    assert process.look(BUSY_S + 0.1) == 0
    assert process.look(BUSY_S - 0.1) == 1


def test_what_is_used_is_not_taken_for_freed_again_and_again() -> None:
    process = Process()
    process.used += 200 * MIB
    assert [process.look() for _ in range(3)] == [1, 1, 1]


def test_what_was_used_for_long_is_returned_when_it_is_freed() -> None:
    process = Process()
    process.used += 200 * MIB
    assert [process.look() for _ in range(3)] == [1, 1, 1]
    process.used, process.free = process.used - 200 * MIB, 200 * MIB
    assert [process.look() for _ in range(3)] == [2, 2, 2]
    assert process.free == 0


def test_this_process_can_return_memory() -> None:
    freed = find_freed_memory(lambda: None)
    if freed is None:
        pytest.skip("the C library has no malloc_trim or no mallinfo2")
    freed.look()


@pytest.mark.parametrize(
    "make",
    [lambda: bytearray(64 * MIB), lambda: [object() for _ in range(1_000_000)]],
    ids=["a large one", "small ones"],
)
def test_this_process_knows_how_much_memory_its_objects_use(make: Callable[[], object]) -> None:
    freed = find_freed_memory(lambda: None)
    if freed is None:
        pytest.skip("the C library has no malloc_trim or no mallinfo2")
    before = freed.read_used()
    kept = make()
    assert freed.read_used() - before >= FREED_BYTES_MIN  # other threads may free something meanwhile
    del kept
