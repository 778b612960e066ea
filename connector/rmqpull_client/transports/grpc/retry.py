"""Calls that are ended from another thread."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from rmqpull_client.errors import RmqpullError


class Cancelled(RmqpullError):
    """Whoever made the call does not want its answer any more."""


class Cancellation:
    """Ends, from another thread, the calls that one thread makes one after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_cancelled = threading.Event()
        # Weak, for a call keeps its answer.
        self._call: Callable[[], Any] = lambda: None

    def watched(self, begin: Callable[[str, float], Any]) -> Callable[[str, float], Any]:
        """What begins a call, so that it can be ended. It raises Cancelled when no call is wanted any more."""

        def begin_watched(address: str, timeout_s: float) -> Any:
            with self._lock:
                if self._is_cancelled.is_set():
                    raise Cancelled("The call was cancelled.")
                call = begin(address, timeout_s)
                self._call = weakref.ref(call)
                return call

        return begin_watched

    def pause(self, seconds: float) -> None:
        """Waits between two attempts, no longer than the calls are wanted."""
        self._is_cancelled.wait(seconds)

    def cancel(self) -> None:
        """Ends the call under way, and lets none follow."""
        with self._lock:
            self._is_cancelled.set()
            if (call := self._call()) is not None:
                call.cancel()
