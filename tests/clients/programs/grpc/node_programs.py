"""The program that uses Apache's gRPC client for Node: its packages are installed once, into the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from processes.children import Child
from processes.maven import SoftwareMissing, cache, made_once

SOURCES = Path(__file__).parent / "node"
INSTALLED_WITHIN_S = 600
_FILES = ("package.json", "package-lock.json", "clients.js")


def start_node(folder: Path) -> Child:
    """Starts the program, which reads calls and prints results. ``folder`` gets its log. Raises SoftwareMissing."""
    folder.mkdir(parents=True, exist_ok=True)
    program = install_clients() / "clients.js"
    # Addresses in the environment would send calls to loopback through a proxy.
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    environment |= {"HOME": str(folder), "NODE_OPTIONS": "--max-old-space-size=512"}
    return Child("Node clients", [_find("node"), str(program)], folder / "log", environment, folder, has_input=True)


def install_clients() -> Path:
    """Installs the packages of the lock file, and returns the folder of the program. Raises SoftwareMissing."""
    npm = _find("npm")
    _find("node")
    sources = b"".join((SOURCES / name).read_bytes() for name in _FILES)
    folder = cache() / f"node-clients-{hashlib.sha256(sources).hexdigest()[:16]}"
    with made_once(folder) as work:
        if work is not None:
            work.mkdir(parents=True, exist_ok=True)
            for name in _FILES:
                shutil.copy(SOURCES / name, work / name)
            command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
            done = subprocess.run(
                command, cwd=work, capture_output=True, text=True, timeout=INSTALLED_WITHIN_S, check=False
            )
            if done.returncode:
                raise SoftwareMissing(f"npm could not install the packages of {SOURCES}: {done.stderr.strip()}")
    return folder


def _find(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise SoftwareMissing(f"{program} is not installed (on Debian or Ubuntu: apt-get install nodejs npm)")
    return found
