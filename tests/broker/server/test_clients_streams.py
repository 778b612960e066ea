"""The Telemetry stream of a client."""

from __future__ import annotations

import asyncio

import pytest

from rmqpull_broker.server import clients
from rmqpull_broker.server.clients import TelemetryStream


def heard(stream: TelemetryStream) -> list[str]:
    async def listen() -> list[str]:
        return [command async for command in stream.commands()]

    return asyncio.run(listen())


def test_commands_are_read_in_order_and_before_the_end() -> None:
    stream = TelemetryStream("ann")
    assert [stream.offer("first"), stream.offer("second")] == [True, True]
    stream.end()
    assert not stream.offer("third")
    assert heard(stream) == ["first", "second"]


def test_a_reader_waits_for_commands_and_for_the_end() -> None:
    async def talk() -> list[str]:
        stream = TelemetryStream("ann")
        listening = asyncio.create_task(_listen(stream))
        for command in ("first", "second"):
            await asyncio.sleep(0)  # runs the reader until it waits
            stream.offer(command)
        await asyncio.sleep(0)
        stream.end()
        return await listening

    async def _listen(stream: TelemetryStream) -> list[str]:
        return [command async for command in stream.commands()]

    assert asyncio.run(talk()) == ["first", "second"]


def test_only_the_first_end_has_an_effect() -> None:
    stream = TelemetryStream("ann")
    stream.end(ValueError("why"))
    stream.end()
    with pytest.raises(ValueError, match="why"):
        heard(stream)


def test_a_client_that_does_not_read_gets_no_more_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "COMMANDS_WAITING_MAX", 2)
    stream = TelemetryStream("ann")
    assert [stream.offer(command) for command in "abc"] == [True, True, False]
    assert not stream.takes_commands
    stream.end()
    assert heard(stream) == ["a", "b"]
