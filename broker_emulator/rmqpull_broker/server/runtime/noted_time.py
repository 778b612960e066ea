"""Who learns how long a request has kept the event loop, where another task works for it: the writer of the log."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

NOTE_TIME: ContextVar[Callable[[], Callable[[float], None] | None]] = ContextVar("NOTE_TIME", default=lambda: None)
"""Finds what is told the seconds of each step of such work. None for requests of which nobody keeps account.

It refers weakly to what is told: timers and tasks that a request begins keep its context for as long as they run.
"""
