"""The soak, short: two rounds, one over columns and one over the standard protocol, with kills of every kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from soak.results import page
from soak.schedule import DECK, KILLS

REPOSITORY = Path(__file__).parents[2]
TIMEOUT_S = 900
END_S = 60


def test_every_acknowledged_message_is_in_the_output_exactly_once(tmp_path: Path) -> None:
    """Also acceptance case 39: topics and queues are added while messages are sent, and the query stops and starts."""
    file = tmp_path / "result.json"
    command = [sys.executable, "-m", "soak", "--seed", "20", "--kills", str(2 * len(DECK))]
    command += ["--kills-per-round", str(len(DECK)), "--json", str(file), "--folder", str(tmp_path / "rounds")]
    soak = subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ)
    )
    try:
        said, _ = soak.communicate(timeout=TIMEOUT_S)
    finally:
        soak.terminate()  # it ends its processes; a kill would leave them
        soak.wait(END_S)
    assert soak.returncode == 0, said
    result = json.loads(file.read_text(encoding="utf-8"))
    assert result["findings"] == []
    assert result["rounds"] == 2
    assert result["kills"].keys() == {kind.value for kind in KILLS}
    assert result["acknowledged"] > 0
    assert result["rows"] > 0


def test_the_page_in_the_docs_is_of_the_result_beside_it() -> None:
    docs = REPOSITORY / "docs"
    result = json.loads((docs / "soak.json").read_text(encoding="utf-8"))
    assert (docs / "soak.md").read_text(encoding="utf-8") == page(result)
