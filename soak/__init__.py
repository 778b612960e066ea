"""Kills of every process, on a schedule drawn from a seed: is every acknowledged message in the output exactly once?

Run with ``make soak`` or ``python -m soak``; docs/soak.md says what is checked and what came out last.
"""

import sys
from pathlib import Path

# Processes that end with all their children are the demo's too, which is a folder of scripts.
sys.path.insert(0, str(Path(__file__).parents[1] / "demo"))
