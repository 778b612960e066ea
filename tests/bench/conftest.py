"""The benchmark is a folder of programs and no package: its modules are found as they find each other."""

from __future__ import annotations

import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"
sys.path.append(str(BENCH))
