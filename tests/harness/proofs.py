"""The deviations in docs/broker-support.md, for the tests that prove them."""

from __future__ import annotations

import re
from pathlib import Path

CODE = re.compile(r"\b[A-Z]+(?:_[A-Z]+)*\b")


def deviations() -> dict[str, str]:
    """Returns the cell "here" of each deviation, by its first cell."""
    text = (Path(__file__).parents[2] / "docs" / "broker-support.md").read_text(encoding="utf-8")
    section = text.partition("\n## Deviations\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return {row[0]: row[2] for row in rows}
