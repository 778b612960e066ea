"""Charges a request for time on the event loop that another task, the writer of the log, spends on it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

NOTE_TIME: ContextVar[Callable[[], Callable[[float], None] | None]] = ContextVar("NOTE_TIME", default=lambda: None)
"""Finds the function to call with the seconds of each step of such work; None if the request's time is not counted.

It holds a weak reference, because timers and tasks that a request starts keep its context as long as they run.
"""
