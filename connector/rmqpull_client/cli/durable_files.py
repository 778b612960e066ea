"""Files that are complete, or not there, after a power cut."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

UNFINISHED = ".unfinished"


def write_file(path: Path, data: bytes) -> None:
    """Writes a file, or replaces it. Raises OSError."""
    with open(path.with_name(path.name + UNFINISHED), "wb") as file:
        file.write(data)
        keep_file(file, path)


def keep_file(file: IO[bytes], path: Path) -> None:
    """Gives an open file its name, once its content is safe. Raises OSError."""
    file.flush()
    os.fsync(file.fileno())
    os.replace(file.name, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
