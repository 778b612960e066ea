"""Questions of the broker to clients that have a stream: commands with a nonce, which the answer repeats."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import NamedTuple

from rmqpull_broker.core.model import MessageQueue, StoredMessage

QUESTIONS_MAX = 1_000
"""The most unanswered questions, to all clients together."""


class PrintThreadStack(NamedTuple):
    """Asks a client for the stacks of its threads."""

    nonce: str


class VerifyMessage(NamedTuple):
    """Asks a consumer to consume a message."""

    nonce: str
    stored: StoredMessage
    queue: MessageQueue


class ClientAnswer(NamedTuple):
    """A client's answer: a code, by its name in the protocol, and the text with it."""

    nonce: str
    code: str
    text: str = ""


class Questions:
    """The questions that wait for an answer. Belongs to the event loop."""

    def __init__(self) -> None:
        self._asked: dict[str, asyncio.Future[ClientAnswer]] = {}

    async def ask(self, offer: Callable[[str], bool], timeout_ms: int) -> ClientAnswer:
        """Asks a client and returns its answer.

        ``offer`` gets the nonce, sends the command, and returns False when the client cannot be reached. Raises
        TimeoutError, and ConnectionError.
        """
        if len(self._asked) >= QUESTIONS_MAX:
            raise ConnectionError(f"clients have not answered {QUESTIONS_MAX} questions")
        nonce = secrets.token_hex(16)
        answer = self._asked[nonce] = asyncio.get_running_loop().create_future()
        try:
            if not offer(nonce):
                raise ConnectionError("the client has no open Telemetry stream")
            return await asyncio.wait_for(answer, timeout_ms / 1000)
        finally:
            del self._asked[nonce]

    def take(self, answer: ClientAnswer) -> None:
        """Passes the answer of a client to whoever waits for it. Ignores an unexpected one."""
        waiting = self._asked.get(answer.nonce)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)
