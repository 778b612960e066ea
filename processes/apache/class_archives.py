"""Archives of the classes that Apache's servers load (Java's class data sharing). With them, servers start faster.

A JVM takes an archive only if it has the same Java and the same jars, and starts without it otherwise. So the name of
the folder says which those are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from processes.java import find_java
from processes.maven import cache


def name_folder(jars: Sequence[Path]) -> Path:
    """Returns the folder for the archives of servers that have these jars. Raises SoftwareMissing without Java."""
    known_by = hashlib.sha256()
    for file in (Path(find_java()).resolve(), *jars):
        state = file.stat()
        known_by.update(f"{file} {state.st_size} {state.st_mtime_ns}\n".encode())
    return cache() / f"archives-{known_by.hexdigest()[:16]}"


def name_archive(folder: Path, main_class: str) -> Path:
    """Returns the archive in a folder for servers with a main class."""
    return folder / f"{main_class.rsplit('.', 1)[-1]}.jsa"
