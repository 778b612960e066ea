"""Kills of every process, on a schedule drawn from a seed: is every acknowledged message in the output exactly once?

Run with ``make soak`` or ``python -m soak``; docs/soak.md says what is checked and what came out.
"""

import sys
from pathlib import Path

# Two folders of scripts: the demo's has processes that end with all their children, the benchmark's has the lock that
# keeps soaks and benchmarks apart.
sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("demo", "bench")]
