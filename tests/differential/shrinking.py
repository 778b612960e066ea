"""Plays a sequence on both servers, and shortens one with a difference while it still has that difference."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tests.differential.comparison import Difference, compare, ends_play
from tests.differential.runner import Address, Run
from tests.differential.steps import Step

PLAYS_MAX = 300
_CELL_MAX = 120
_DIGITS = re.compile(r"\d+")


class Finding(NamedTuple):
    """Steps whose last one is answered differently."""

    steps: Sequence[Step]
    differences: Sequence[Difference]

    def is_like(self, other: Finding | None) -> bool:
        """Whether the same request differs in the same values: a shorter sequence may have a difference of its own."""
        return other is not None and self.name == other.name

    @property
    def name(self) -> tuple[object, ...]:
        """What is the same in findings with the same cause: the request, and where the answers differ."""
        texts = [one for one in self.differences if one.path in ("code", "remark")] or self.differences
        return self.steps[-1].code, *(
            _DIGITS.sub("", repr(one) if one.path in ("code", "remark") else one.path) for one in texts
        )

    def format(self) -> str:
        """Returns the steps as a table, and what differs in the last answer."""
        lines = ["| # | request | client | fields | body |", "| --- | --- | --- | --- | --- |"]
        for number, step in enumerate(self.steps, 1):
            fields = " ".join(f"{name}={text!r}" for name, text in step.fields.items())
            body = step.body if isinstance(step.body, str) else str(step.body)[:_CELL_MAX]
            lines.append(f"| {number} | {step.code} {step.name} | {step.client} | {fields} | {body} |")
        lines += ["", "| differs | emulator | apache |", "| --- | --- | --- |"]
        lines += [f"| {one.path} | {one.emulator!r:.300} | {one.apache!r:.300} |" for one in self.differences]
        return "\n".join(lines)


def play(steps: Sequence[Step], emulator: Address, apache: Address) -> Finding | None:
    """Sends the steps to both servers, until an answer differs. Names are those of no other play."""
    own = f"d{uuid.uuid4().hex[:10]}"
    with Run(emulator, own) as mine, Run(apache, own) as theirs:
        pairs = []
        for index, step in enumerate(steps):
            pairs.append((step, mine.do(step), theirs.do(step)))
            if step.is_held and index + 1 < len(steps):
                continue  # the next step ends the wait
            for run in (mine, theirs):
                run.end_holds()
            for held, one, other in pairs:
                if ends_play(one):
                    return None
                if differences := compare(held, one, other, own):
                    return Finding(steps[: index + 1], differences)
            pairs.clear()
    return None


def shrink(finding: Finding, replay: Callable[[Sequence[Step]], Finding | None]) -> Finding:
    """Returns a shorter sequence with the same difference: one where no step and no field can be left out.

    At most ``PLAYS_MAX`` plays.
    """
    plays = itertools.count()
    is_shorter = True
    while is_shorter:
        is_shorter = False
        for candidate in _list_shorter(finding.steps):
            if next(plays) >= PLAYS_MAX:
                return finding
            found = replay(candidate)
            if found is not None and found.is_like(finding):
                finding, is_shorter = found, True
                break
    return finding


def _list_shorter(steps: Sequence[Step]) -> Iterator[Sequence[Step]]:
    """Yields the steps without some of them: first without a half, then without ever fewer. The last one remains."""
    size = max(1, (len(steps) - 1) // 2)
    while size and len(steps) > 1:
        for start in range(0, len(steps) - 1, size):
            yield [*steps[:start], *steps[min(start + size, len(steps) - 1) :]]
        size //= 2
