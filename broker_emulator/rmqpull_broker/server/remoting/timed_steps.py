"""Times the steps of a coroutine: how long each has occupied the event loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class TimedSteps(Generic[T]):
    """Awaits a coroutine, and calls ``note`` with the seconds of each of its steps, from one wait to the next."""

    __slots__ = ("_note", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], note: Callable[[float], None]) -> None:
        self._work = work
        self._note = note

    def __await__(self) -> Generator[Any, Any, T]:
        step: Callable[[], Any] = partial(self._work.send, None)
        while True:
            begun_s = time.perf_counter()
            try:
                awaited = step()
            except StopIteration as done:
                value: T = done.value
                return value
            finally:
                del step  # breaks a cycle: it may hold an error that refers to this frame
                self._note(time.perf_counter() - begun_s)
            try:
                step = partial(self._work.send, (yield awaited))
            except GeneratorExit:
                self._work.close()
                raise
            except BaseException as error:  # noqa: BLE001 (also that of a cancelled task: the coroutine handles it)
                step = partial(self._work.throw, error)
            del awaited  # breaks a cycle, as above
