"""The unfinished requests of one connection, and how much time of the event loop requests take."""

from __future__ import annotations

from rmqpull_broker.server.runtime.slices import SLICE_S

STEP_S = 0.0001
"""The assumed time of a step of a request, until one was timed."""
DECAY = 0.9
"""The weight of earlier steps and requests after another one."""
BEGUN_S_MAX = 7 * SLICE_S
"""The time that all begun requests may take together, not counting those that wait for messages."""


class BegunWork:
    """The tasks of a connection's requests, and their time, also where another task works for them."""

    __slots__ = ("_ended", "_tasks", "_worked_s", "step_s")

    def __init__(self) -> None:
        self.step_s = STEP_S
        """The approximate time of the longest of the last steps, in seconds."""
        self._tasks = 0
        self._worked_s = 0.0
        self._ended = 0.0

    def begin(self) -> None:
        """Counts a task that has begun."""
        self._tasks += 1

    def note_step(self, seconds: float) -> None:
        """Counts the time for which a step has occupied the event loop."""
        self.step_s = max(seconds, DECAY * self.step_s)
        self._worked_s += seconds

    def note_wait(self) -> None:
        """Counts a request that from now on waits for messages: its work is done."""
        self._worked_s, self._ended = DECAY * self._worked_s, DECAY * (self._ended + 1)

    def end(self) -> None:
        """Counts a task that has ended."""
        self._tasks -= 1
        self.note_wait()

    def is_enough(self, waiting: int) -> bool:
        """Whether no other request may begin. ``waiting`` is how many of the tasks wait for messages."""
        return (self._tasks - waiting) * self._worked_s / max(1.0, self._ended) >= BEGUN_S_MAX
