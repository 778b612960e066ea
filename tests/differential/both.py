"""Two servers that get the same requests, one after the other, and must give the same answers."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import NamedTuple

from tests.differential.comparison import compare
from tests.differential.runner import Answer, Run
from tests.differential.steps import Step

AGAIN_WITHIN_S = 90.0
"""Apache's broker looks at what is due in rounds, which take seconds."""
_LOOK_S = 0.2


class Held(NamedTuple):
    """A request that waits, with the answers that will come."""

    step: Step
    answers: Mapping[str, Answer]


class Both:
    """The same names on both servers. Each answer must be the same."""

    def __init__(self, own: str, runs: Mapping[str, Run]) -> None:
        self._own = own
        self._runs = runs

    def do(self, step: Step, ends_holds: bool = True) -> Answer:
        """Sends a request to both. Returns the emulator's answer.

        ``ends_holds`` waits for the answers to requests that are held, after both servers have got this one.
        """
        answers = {name: run.do(step) for name, run in self._runs.items()}
        if ends_holds:
            for run in self._runs.values():
                run.end_holds()
        return self._compare(step, answers)

    def do_until_found(self, step: Step) -> Answer:
        """Pops until a message comes, on both."""
        return self._compare(step, {name: self._repeat_until_found(run, step) for name, run in self._runs.items()})

    def hold(self, step: Step) -> Held:
        """Sends a request that waits. Its answers come after the next request."""
        return Held(step, {name: run.do(dataclasses.replace(step, is_held=True)) for name, run in self._runs.items()})

    def end(self, held: Held) -> Answer:
        """Compares the answers to a request that has waited."""
        return self._compare(held.step, held.answers)

    def _compare(self, step: Step, answers: Mapping[str, Answer]) -> Answer:
        assert compare(step, answers["emulator"], answers["apache"], self._own) == [], answers
        return answers["emulator"]

    @staticmethod
    def _repeat_until_found(run: Run, step: Step) -> Answer:
        give_up = time.monotonic() + AGAIN_WITHIN_S
        while (answer := run.do(step)).code != 0:
            assert time.monotonic() < give_up, f"nothing was redelivered: {answer}"
            time.sleep(_LOOK_S)
        return answer
