"""The process of one attack. It is limited from outside, by bench/hostile/half_core.py.

usage: python -m bench.hostile.attacker NAME TARGET
"""

from __future__ import annotations

import resource
import sys

from bench.hostile.attack import Target
from bench.hostile.attacks import ATTACKS

BEGUN = "attacking"
FILES_MAX = 20_000


def attack(name: str, target: Target) -> None:
    """Attacks until the process is killed. Prints a line when the preparation is done."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES_MAX, most), most))
    steps = ATTACKS[name].run(target)
    next(steps)
    print(BEGUN, flush=True)
    for _ in steps:
        pass


if __name__ == "__main__":
    attack(sys.argv[1], Target.from_text(sys.argv[2]))
