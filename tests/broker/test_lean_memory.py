"""The setting of the C library, where it has one."""

from __future__ import annotations

import ctypes

import pytest

from rmqpull_broker.lean_memory import share_one_heap


class _Library:
    def __init__(self) -> None:
        self.settings: list[tuple[int, int]] = []

    def mallopt(self, name: int, value: int) -> int:
        self.settings.append((name, value))
        return 1


def test_all_threads_share_one_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    share_one_heap()
    assert library.settings == [(-8, 1)]  # M_ARENA_MAX of malloc.h


def test_another_c_library_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    share_one_heap()
