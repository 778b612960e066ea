"""The program that uses Apache's gRPC client for Rust: built once, into the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from processes.children import Child
from processes.maven import SoftwareMissing, cache, made_once

SOURCES = Path(__file__).parent / "rust"
BUILT_WITHIN_S = 900
_FILES = ("Cargo.toml", "Cargo.lock", "src/main.rs")
_JOBS = 2
"""How many processes compile the 250 crates: few, because tests run meanwhile."""


def start_rust(folder: Path) -> Child:
    """Starts the program, which reads calls and prints results. ``folder`` gets its log. Raises SoftwareMissing."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "HOME": str(folder), "RUST_BACKTRACE": "1"}
    return Child("Rust clients", [str(build_clients())], folder / "log", environment, folder, has_input=True)


def build_clients() -> Path:
    """Builds the program with the crates of its lock file, which takes a minute or two. Raises SoftwareMissing."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise SoftwareMissing("Rust is not installed (see rustup, or on Debian or Ubuntu: apt-get install cargo)")
    sources = b"".join((SOURCES / name).read_bytes() for name in _FILES)
    folder = cache() / f"rust-clients-{hashlib.sha256(sources).hexdigest()[:16]}"
    with made_once(folder) as work:
        if work is not None:
            target = work.with_name("target")  # half a gigabyte that is not kept
            command = [cargo, "build", "--quiet", "--locked", "--jobs", str(_JOBS), "--target-dir", str(target)]
            done = subprocess.run(
                command, cwd=SOURCES, capture_output=True, text=True, timeout=BUILT_WITHIN_S, check=False
            )
            if done.returncode:
                raise SoftwareMissing(f"cargo could not build {SOURCES}: {done.stderr.strip()[-2000:]}")
            shutil.copy(target / "debug" / "rmqpull-rust-clients", work / "clients")
    return folder / "clients"
