"""The soak is a package beside the others, found where the repository is; it shares the demo's folder of scripts."""

import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "demo")]
