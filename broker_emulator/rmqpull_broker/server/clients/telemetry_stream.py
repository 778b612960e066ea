"""One client's Telemetry stream, as the place where the server leaves commands for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

COMMANDS_WAITING_MAX = 1_000
"""Commands that a client has not read yet; an orphaned transaction weighs as much as its message."""


class TelemetryStream:
    """Belongs to the event loop. What commands look like on the wire is nothing that it knows."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self._commands: deque[Any] = deque()
        self._woken = asyncio.Event()
        self._is_ended = False
        self._error: Exception | None = None

    @property
    def takes_commands(self) -> bool:
        """Whether :meth:`offer` would take one."""
        return not self._is_ended and len(self._commands) < COMMANDS_WAITING_MAX

    def offer(self, command: Any) -> bool:
        """Leaves a command for the client; False when the stream has ended, or the client does not keep up."""
        if not self.takes_commands:
            return False
        self._commands.append(command)
        self._woken.set()
        return True

    def end(self, error: Exception | None = None) -> None:
        """Ends the stream when everything before has been sent, with an error if there is one. The first end counts."""
        if not self._is_ended:
            self._is_ended, self._error = True, error
            self._woken.set()

    async def commands(self) -> AsyncIterator[Any]:
        """The commands in order, until the stream is ended. Raises the error that it was ended with."""
        while True:
            while self._commands:
                yield self._commands.popleft()
            if self._is_ended:
                break
            self._woken.clear()
            await self._woken.wait()
        if self._error is not None:
            raise self._error
