"""The demo is a folder of scripts: its modules are found as they are when one of them is run."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "demo"))
