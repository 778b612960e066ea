"""The 500 changes that seed 44655043 drew from 16,583: of the core, the store, the client and the connector.

drawn.tsv names each by module, function and change. A change whose code is rewritten leaves the list with it. Three
have: one was in a module that lives in the harness now, one changed nothing (``while True`` became ``while 2``), and
one was in the sort of batches by queue.
"""

from __future__ import annotations

from pathlib import Path


def read_drawn() -> set[tuple[str, str, str]]:
    """Returns the module, the function and the change of each."""
    lines = Path(__file__).with_name("drawn.tsv").read_text(encoding="utf-8").splitlines()
    return {(module, function, what) for module, function, what in (line.split("\t") for line in lines)}
