"""How connections share the turns of the event loop."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest

from rmqpull_broker.server.remoting.turns import RESTS, Turns, TurnTaker
from rmqpull_broker.server.runtime.slices import SLICE_S, Slice

STEP_S = SLICE_S / 3.9  # a slice is over after four steps, however they are rounded


class Working:
    """A connection with steps of work."""

    def __init__(self, loop: Loop, name: str, steps: int, step_s: float = STEP_S) -> None:
        self.is_heavy = False
        self._loop, self._name, self._left, self._step_s = loop, name, steps, step_s

    def handle_received(self, slice_: Slice) -> bool:
        while self._left:
            self._left -= 1
            self._loop.now_s += self._step_s
            self._loop.worked[-1].append(self._name)
            if slice_.is_over:
                break
        return self._left > 0


class Loop:
    """Connections with steps of work, and a clock that only their work moves. It notes who worked in which turn."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.turns = Turns(lambda: self.now_s)
        self.worked: list[list[str]] = [[]]

    def make_connection(self, name: str, steps: int) -> TurnTaker:
        return Working(self, name, steps)

    def run(self, *arriving: dict[str, int]) -> list[str]:
        """In each turn of the loop, connections with so many steps arrive. Returns who worked in each turn."""

        async def story() -> None:
            for connections in arriving:
                for name, steps in connections.items():
                    self.turns.take(self.make_connection(name, steps))
                self.worked.append([])
                await asyncio.sleep(0)
            for _ in range(20):
                self.worked.append([])
                await asyncio.sleep(0)

        asyncio.run(story())
        return list(filter(None, map("".join, self.worked)))


@pytest.mark.parametrize(
    ("arriving", "worked"),
    [
        ([{"a": 1, "b": 1}], ["ab"]),
        ([{"a": 10}], ["aaaa", "aaaa", "aa"]),
        # Connections that arrive together share a slice, and so do those that have more, which take turns.
        ([{"a": 6, "b": 6}], ["aaaa", "bbbbaabb"]),
        ([{"a": 9, "b": 9, "c": 9}], ["aaaa", "bbbbaaaa", "ccccbbbb", "accc", "bcc"]),
        # Who arrives while others have more has its turn at once.
        ([{"a": 20}, {"b": 1}, {"c": 1}], ["aaaa", "aaaab", "aaaac", "aaaa", "aaaa"]),
    ],
)
def test_a_turn_of_the_loop_has_a_slice_of_who_has_more_and_one_of_who_arrives(
    arriving: list[dict[str, int]], worked: list[str]
) -> None:
    assert Loop().run(*arriving) == worked


class Failing:
    is_heavy = False

    def handle_received(self, slice_: Slice) -> bool:
        raise RuntimeError("a defect")


def test_an_error_of_one_connection_leaves_the_others_their_turns() -> None:
    loop = Loop()

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        loop.turns.take(loop.make_connection("a", 5))
        loop.turns.take(Failing())
        loop.turns.take(loop.make_connection("b", 1))
        for _ in range(9):
            await asyncio.sleep(0)

    asyncio.run(story())
    assert "".join(itertools.chain(*loop.worked)) == "aaaaab"


# --- requests that take longer than a slice ---------------------------------------------------------------------------


def test_heavy_connections_rest_after_their_work_while_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, rests = Loop(), list[float]()

    async def story() -> None:
        running = asyncio.get_running_loop()

        def rest(seconds: float, go_on: Callable[[], None]) -> None:
            rests.append(seconds)
            loop.now_s += seconds
            running.call_soon(go_on)

        monkeypatch.setattr(running, "call_later", rest)
        light = Working(loop, "a", 1)
        loop.turns.take(light)
        heavy = [Working(loop, name, 2, step_s=10 * SLICE_S) for name in "xy"]
        for one in heavy:
            loop.turns.take(one)
        for _ in range(20):
            await asyncio.sleep(0)

    asyncio.run(story())
    assert sorted(itertools.chain(*loop.worked)) == ["a", "x", "x", "y", "y"]
    assert rests == [pytest.approx(RESTS * 10 * SLICE_S)] * len(rests)
    assert len(rests) >= 2


def test_a_heavy_connection_alone_does_not_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()

    async def story() -> None:
        running = asyncio.get_running_loop()
        monkeypatch.setattr(running, "call_later", lambda *_: pytest.fail("it rests"))
        loop.turns.take(Working(loop, "x", 5, step_s=10 * SLICE_S))
        for _ in range(20):
            await asyncio.sleep(0)

    asyncio.run(story())
    assert "".join(itertools.chain(*loop.worked)) == "xxxxx"
