"""Environments of Python with chosen releases of packages, made once into the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Collection, Sequence
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement

from processes.maven import SoftwareMissing, cache, made_once

REPOSITORY = Path(__file__).resolve().parents[1]
DONE_WITHIN_S = 900


def make_environment(name: str, packages: Sequence[str], python: str = sys.executable, *, is_new: bool = False) -> Path:
    """Returns the Python of an environment with these packages. Raises SoftwareMissing when they cannot be had.

    ``packages`` are arguments of ``pip install``. The same arguments give the same environment, unless ``is_new`` asks
    for one with today's releases.
    """
    known_by = "\n".join([python, _run(python, "-V"), *packages])
    folder = cache() / f"environment-{name}-{hashlib.sha256(known_by.encode()).hexdigest()[:16]}"
    if is_new:
        shutil.rmtree(folder, ignore_errors=True)
    with made_once(folder) as work:
        if work is not None:
            # Its scripts name this folder, which is about to be renamed. Nothing runs them: modules run instead.
            _run(python, "-m", "venv", work)
            install(work / "bin" / "python", *packages)
    return folder / "bin" / "python"


def make_layer(folder: Path, below: Path) -> Path:
    """Returns the Python of an environment in a folder that has all packages of the one below, and whose pip sees them.

    What is installed in it changes nothing below.
    """
    _run(below, "-m", "venv", folder)
    python = folder / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    Path(_run(python, "-c", where), "below.pth").write_text(_run(below, "-c", where) + "\n", encoding="utf-8")
    return python


def install(python: Path, *packages: str | Path) -> None:
    """Installs packages. Raises SoftwareMissing."""
    _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)


def freeze(python: Path) -> dict[str, str]:
    """Returns the release of each installed package."""
    lines = _run(python, "-m", "pip", "freeze", "--all", "--disable-pip-version-check").splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def build_wheel(folder: Path) -> Path:
    """Builds the wheel of this checkout into a folder. Raises SoftwareMissing."""
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation")
    with (REPOSITORY / "setup.py").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # setuptools has one folder for all builds of a checkout
        _run(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder, REPOSITORY)
    (wheel,) = folder.glob("rmqpull-*.whl")
    return wheel


def list_oldest(extras: Collection[str] = (), python: str = sys.executable) -> list[str]:
    """Returns the oldest release that setup.py allows of each package that rmqpull and these extras need."""
    release = _run(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    found = (Requirement(each) for each in requires("rmqpull") or ())
    return sorted(
        {
            f"{each.name}=={bound.version}"
            for each in found
            if each.marker is None
            or any(each.marker.evaluate({"python_version": release, "extra": extra}) for extra in ("", *extras))
            for bound in each.specifier
            if bound.operator == ">="
        }
    )


def find_python(release: str) -> str | None:
    """Returns a Python of a minor release such as 3.10, from PATH or pyenv, or None."""
    ours = sorted(Path.home().glob(f".pyenv/versions/{release}.*/bin/python"))
    for found in (*map(str, ours), shutil.which(f"python{release}")):
        try:
            if found is not None:
                _run(found, "-c", "import ensurepip, venv")
                return found
        except SoftwareMissing:
            continue
    return None


def _run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=DONE_WITHIN_S, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise SoftwareMissing(f"{' '.join(map(str, command))} failed: {last}")
    return done.stdout.strip()
