"""When a consumer does what it does again and again."""

from __future__ import annotations

from collections.abc import Mapping


class Timetable:
    """Tasks by name, each with its period in seconds; an infinite one is only hurried. All are due at the start.

    A task is due again one period after it was begun. :meth:`hurry` makes it due sooner. Times are those of a clock
    that never goes back, in seconds.
    """

    def __init__(self, periods_s: Mapping[str, float], now_s: float) -> None:
        self._periods_s = dict(periods_s)
        self._due_s = dict.fromkeys(self._periods_s, now_s)

    def take_due(self, now_s: float) -> list[str]:
        """Returns the tasks that are due, in the order of the periods given, and counts them as begun now."""
        due = [name for name, due_s in self._due_s.items() if due_s <= now_s]
        for name in due:
            self._due_s[name] = now_s + self._periods_s[name]
        return due

    def hurry(self, name: str, at_s: float) -> None:
        """Makes a task due at a time, unless it is due sooner."""
        self._due_s[name] = min(self._due_s[name], at_s)

    def get_next_s(self) -> float:
        """Returns when the next task is due."""
        return min(self._due_s.values())
