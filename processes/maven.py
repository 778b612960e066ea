"""Jars from Maven, fetched once into the user's cache. Several processes may ask at the same time."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

FETCH_TIMEOUT_S = 600

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>rmqpull</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>{}</dependencies>
</project>
"""
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


class SoftwareMissing(Exception):
    """A program is not on this machine and cannot be fetched. The text says why, in one sentence."""


class MavenFailed(Exception):
    """Maven did not do what a project asked for. The text is what it printed."""


@dataclass(frozen=True)
class Artifact:
    """An artifact of Maven Central, with or without its dependencies."""

    group: str
    name: str
    version: str
    is_alone: bool = True

    def as_dependency(self) -> str:
        """Returns the artifact as a dependency in a POM."""
        return (
            f"<dependency><groupId>{self.group}</groupId><artifactId>{self.name}</artifactId>"
            f"<version>{self.version}</version>{_ALONE * self.is_alone}</dependency>"
        )

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"


def fetch_jars(artifacts: Sequence[Artifact]) -> list[Path]:
    """Returns the jars of these artifacts, from the cache or from Maven. Raises SoftwareMissing."""
    pom = _POM.format("".join(map(Artifact.as_dependency, artifacts)))
    folder = cache() / f"{artifacts[0].name}-{artifacts[0].version}-{hashlib.sha256(pom.encode()).hexdigest()[:8]}"
    with made_once(folder) as work:
        if work is not None:
            _copy_jars(artifacts, pom, work)
    return sorted(folder.glob("*.jar"))


def run_maven(project: Path, *arguments: str, environment: Mapping[str, str]) -> str:
    """Runs Maven in the folder of a project, and returns what it printed.

    ``environment`` is added to that of this process. Raises SoftwareMissing, and MavenFailed.
    """
    done = subprocess.run(
        [_find_maven(), "-B", *arguments],
        cwd=project,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise MavenFailed(done.stdout)
    return done.stdout


def cache() -> Path:
    """Returns the folder that keeps the jars, outside of the checkout."""
    kept = os.environ.get("XDG_CACHE_HOME")
    return (Path(kept) if kept else Path.home() / ".cache") / "rmqpull"


@contextmanager
def made_once(folder: Path) -> Iterator[Path | None]:
    """Yields an empty folder that becomes ``folder`` at the end of the block, or None if ``folder`` exists.

    Other processes that ask for the same folder wait. After an error ``folder`` does not exist.
    """
    if folder.is_dir():
        yield None
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            yield None
            return
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            made = Path(work) / "made"
            made.mkdir()
            yield made
            made.rename(folder)


def _copy_jars(artifacts: Sequence[Artifact], pom: str, to: Path) -> None:
    pom_file = to.with_name("pom.xml")
    pom_file.write_text(pom, encoding="utf-8")
    command = [_find_maven(), "-q", "-B", "-f", str(pom_file), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    try:
        done = subprocess.run(
            [*command, f"-DoutputDirectory={to}"], capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise SoftwareMissing(f"Maven did not get {artifacts[0]} within {FETCH_TIMEOUT_S} s") from None
    if done.returncode:
        raise SoftwareMissing(f"Maven could not get {', '.join(map(str, artifacts))}")


def _find_maven() -> str:
    maven = shutil.which("mvn")
    if maven is None:
        raise SoftwareMissing("Maven is not installed (on Debian or Ubuntu: apt-get install maven)")
    return maven
