"""Changes the most important modules in one place at a time, and names the changes that no test notices.

python -m tests.mutants                          all modules, 50 minutes at most, in an order that the day chooses
python -m tests.mutants offsets.py backlog.py    those whose paths end so, all of them
python -m tests.mutants --drawn                  500 changes of the core, the store, the client and the connector
python -m tests.mutants --list                   prints the changes

First the tests of the module itself run, then those of its package, and then those of the client, the connector, the
broker or the wire, until one notices the change. It exits with 1 when all miss one that `survivors.py` does not know.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import random
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.mutants.changes import Mutant, list_mutants
from tests.mutants.drawn import read_drawn
from tests.mutants.modules import MODULES, find_tests
from tests.mutants.survivors import KNOWN
from tests.mutants.trial import REPOSITORY, Trial, load_once

_SLOWER = 8
"""A change that makes tests this much slower counts as noticed: it may wait or loop for ever."""
_START_S = 10.0
_UNCHANGED_S = 600.0
_PASSED = (0, 5)
"""Exit codes of pytest: all passed, or none was chosen."""
_NOTICED, _MISSED = "noticed", "MISSED"


class Task(NamedTuple):
    """A change of a module, to be tried with tests."""

    module: str
    mutant: Mutant
    tests: Sequence[Sequence[str]]
    """The tests of the module, and wider ones."""

    def __str__(self) -> str:
        return f"{self.module}:{self.mutant.line}: {self.mutant.change}"


def main() -> None:
    """Runs the program. Exits with 1 for a change that no test notices, and 2 when the tests fail without any."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("modules", nargs="*", help="how the paths of modules end; all by default")
    parser.add_argument("--minutes", type=float, default=50, help="end after so long, with the rest untried")
    parser.add_argument("--processes", type=int, default=2, help="trials at the same time")
    parser.add_argument("--seed", type=int, default=datetime.date.today().toordinal(), help="the order of the changes")
    parser.add_argument("--drawn", action="store_true", help="try the changes of drawn.tsv")
    parser.add_argument("--list", action="store_true", help="print the changes, and try none")
    options = parser.parse_args()
    tasks = list_drawn() if options.drawn else [task for module in MODULES for task in list_tasks(module)]
    tasks = [task for task in tasks if not options.modules or task.module.endswith(tuple(options.modules))]
    if options.list:
        print(*tasks, sep="\n")
        return
    random.Random(options.seed).shuffle(tasks)
    load_once()
    deadline = time.monotonic() + options.minutes * 60
    with tempfile.TemporaryDirectory() as folder:
        limits = Limits(Path(folder))
        results = list(try_all(tasks, limits, deadline, options.processes, Path(folder)))
    missed = [task for task, result in results if result == _MISSED]
    print(f"{len(results)} of {len(tasks)} changes tried with seed {options.seed}, {len(missed)} not noticed.")
    new = [task for task in missed if (task.module, *task.mutant.change) not in KNOWN]
    if new:
        print("Tests must notice these, or tests/mutants/survivors.py must say why they need not:", *new, sep="\n  ")
        sys.exit(1)


def list_tasks(module: str) -> Iterator[Task]:
    """Yields the changes of a module."""
    path = REPOSITORY / module
    for mutant in list_mutants(path.read_text(encoding="utf-8"), str(path)):
        yield Task(module, mutant, find_tests(module))


def list_drawn() -> list[Task]:
    """Returns the changes of drawn.tsv. Those whose code has been rewritten since are counted, and left out."""
    drawn = read_drawn()
    found = [task for module in sorted({m for m, *_ in drawn}) for task in list_tasks(module)]
    tasks = [task for task in found if (task.module, *task.mutant.change) in drawn]
    print(f"{len(drawn) - len(tasks)} of {len(drawn)} changes are of code that is gone.")
    return tasks


class Limits:
    """How long tests may take, in seconds. It is measured when the tests are first asked about."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "unchanged.log"
        self._limits: dict[Sequence[str], float] = {}

    def find(self, task: Task, step: int) -> float:
        """Returns a limit. Exits with 2 unless the tests succeed without a change."""
        path, tests = REPOSITORY / task.module, task.tests[step]
        if tests not in self._limits:
            trial = Trial(path, None, tests, _UNCHANGED_S, self._log)
            if trial.finish() not in _PASSED:
                print(f"{tests} fail without a change:\n{self._log.read_text(encoding='utf-8')}", file=sys.stderr)
                sys.exit(2)
            self._limits[tests] = _START_S + _SLOWER * trial.passed_s
        return self._limits[tests]


def try_all(
    tasks: Sequence[Task], limits: Limits, deadline: float, processes: int, folder: Path
) -> Iterator[tuple[Task, str]]:
    """Tries changes, some at a time, until the deadline. Yields each with its result.

    Each is tried with the tests of its module first. Wider tests follow when all have been, because few need them.
    """
    waiting = deque((task, 0) for task in tasks)
    running: list[tuple[Task, int, Trial]] = []
    while True:
        while len(running) < processes and waiting and time.monotonic() < deadline:
            task, step = waiting.popleft()
            log, limit_s = folder / f"{id(task)}.log", limits.find(task, step)
            trial = Trial(REPOSITORY / task.module, task.mutant.code, task.tests[step], limit_s, log)
            running.append((task, step, trial))
        if not running:
            return
        for entry in list(running):
            task, step, trial = entry
            result = trial.find_result()
            if result is None:
                continue
            running.remove(entry)
            if result in _PASSED and step + 1 < len(task.tests):
                waiting.append((task, step + 1))
                continue
            outcome = _MISSED if result in _PASSED else _NOTICED
            print(f"{outcome}: {task}", flush=True)
            yield task, outcome
        with contextlib.suppress(InterruptedError):
            time.sleep(0.02)


if __name__ == "__main__":
    main()
