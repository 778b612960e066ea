"""Producers and push consumers of rocketmq-client-go, built once into the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from processes.children import Child
from processes.maven import SoftwareMissing, cache, made_once
from tests.clients.programs.java.many_clients import ManyClients

PROGRAM = Path(__file__).parent / "program"
BUILT_WITHIN_S = 600


class GoClients(ManyClients):
    """A process with clients in Go. ``folder`` gets its log. Raises SoftwareMissing."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "ROCKETMQ_GO_LOG_LEVEL": "error", "HOME": str(folder)}
        program = build_clients()
        super().__init__(Child("Go clients", [str(program)], folder / "log", environment, folder, has_input=True))


def build_clients() -> Path:
    """Builds the program with the modules of Go's proxy, and returns it. Raises SoftwareMissing."""
    go = shutil.which("go")
    if go is None:
        raise SoftwareMissing("Go is not installed (on Debian or Ubuntu: apt-get install golang)")
    sources = b"".join((PROGRAM / name).read_bytes() for name in ("go.mod", "go.sum", "main.go"))
    folder = cache() / f"go-clients-{hashlib.sha256(sources).hexdigest()[:16]}"
    with made_once(folder) as work:
        if work is not None:
            command = [go, "build", "-o", str(work / "clients"), "."]
            done = subprocess.run(
                command, cwd=PROGRAM, capture_output=True, text=True, timeout=BUILT_WITHIN_S, check=False
            )
            if done.returncode:
                raise SoftwareMissing(f"Go could not build {PROGRAM}: {done.stderr.strip()}")
    return folder / "clients"
