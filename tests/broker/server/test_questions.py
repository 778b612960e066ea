"""Questions to clients: each answer goes to the one who asked."""

from __future__ import annotations

import asyncio

import pytest

from rmqpull_broker.server import questions
from rmqpull_broker.server.questions import ClientAnswer, Questions


def test_answers_are_told_apart_by_their_nonce() -> None:
    async def story() -> None:
        asked: list[str] = []
        office = Questions()

        def offer(nonce: str) -> bool:
            asked.append(nonce)
            return True

        waiting = [asyncio.ensure_future(office.ask(offer, 60_000)) for _ in range(2)]
        await asyncio.sleep(0)
        for nonce in ("unknown", *reversed(asked), asked[0]):
            office.take(ClientAnswer(nonce, "OK", f"answer to {nonce}"))
        answers = await asyncio.gather(*waiting)
        assert [answer.text for answer in answers] == [f"answer to {nonce}" for nonce in asked]

    asyncio.run(story())


def test_who_cannot_be_reached_or_is_silent_gives_no_answer() -> None:
    async def story() -> None:
        office = Questions()
        with pytest.raises(ConnectionError, match="no open Telemetry stream"):
            await office.ask(lambda nonce: False, 60_000)
        with pytest.raises((TimeoutError, asyncio.TimeoutError)):
            await office.ask(lambda nonce: True, 0)

    asyncio.run(story())


def test_questions_without_an_answer_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "QUESTIONS_MAX", 1)

    async def story() -> None:
        office = Questions()
        first = asyncio.ensure_future(office.ask(lambda nonce: True, 60_000))
        await asyncio.sleep(0)
        with pytest.raises(ConnectionError, match="have not answered 1 questions"):
            await office.ask(lambda nonce: True, 60_000)
        first.cancel()

    asyncio.run(story())
