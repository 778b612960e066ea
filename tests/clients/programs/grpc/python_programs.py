"""Apache's gRPC client for Python as a process. It is a dependency of the tests: nothing is fetched."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from processes.children import Child

_REPOSITORY = Path(__file__).parents[4]


def start_python(folder: Path) -> Child:
    """Starts the clients for Python. ``folder`` gets what they log."""
    folder.mkdir(parents=True, exist_ok=True)
    # The library writes its log below the home folder.
    environment = {**os.environ, "HOME": str(folder), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "tests.clients.programs.grpc.python"]
    return Child("clients for Python", command, folder / "log", environment, _REPOSITORY, has_input=True)
