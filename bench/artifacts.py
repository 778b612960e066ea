"""Kafka and Spark's Kafka source, fetched once from Maven into the user's cache, and only for benchmarks."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pyspark import __version__ as SPARK_VERSION

KAFKA_VERSION = "3.9.2"
"""The release that Spark 4.2's source is built with, for server and client."""
TOKEN_PROVIDER_VERSION_OLDER = "4.0.0"
SOURCE_VERSION_OLDER = "4.2.0"
"""Versions of source and token provider for Spark releases without their own in Maven. They run on Spark 4.3."""
POOL_VERSION = "2.12.1"
MAVEN_TIMEOUT_S = 600

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>rmqpull</groupId><artifactId>bench-jars</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>{}</dependencies>
</project>
"""
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


class PeerMissing(Exception):
    """A peer cannot run here. The text says why, in one sentence."""


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


SERVER = (Artifact("org.apache.kafka", "kafka_2.13", KAFKA_VERSION, is_alone=False),)


def source_candidates() -> list[tuple[Artifact, ...]]:
    """Returns what Spark's Kafka source needs besides Spark. The first that Maven can get is used."""
    return [
        (
            Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", source),
            Artifact("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", token_provider),
            Artifact("org.apache.kafka", "kafka-clients", KAFKA_VERSION),
            Artifact("org.apache.commons", "commons-pool2", POOL_VERSION),
        )
        for source, token_provider in (
            (SPARK_VERSION, SPARK_VERSION),
            (SOURCE_VERSION_OLDER, TOKEN_PROVIDER_VERSION_OLDER),
        )
    ]


def source_jars() -> tuple[str, list[Path]]:
    """Returns the version of Spark's Kafka source, and its jars. Raises PeerMissing."""
    refusals = []
    for artifacts in source_candidates():
        try:
            return artifacts[0].version, jars(artifacts)
        except PeerMissing as missing:
            refusals.append(str(missing))
    raise PeerMissing(refusals[-1])


def jars(artifacts: tuple[Artifact, ...]) -> list[Path]:
    """Returns the jars of these artifacts, from the cache or from Maven. Raises PeerMissing."""
    folder = cache() / "-".join(f"{artifact.name}-{artifact.version}" for artifact in artifacts[:2])
    if not folder.is_dir():
        _fetch(artifacts, folder)
    return sorted(folder.glob("*.jar"))


def cache() -> Path:
    """Returns the folder that keeps the jars, outside of the checkout."""
    kept = os.environ.get("XDG_CACHE_HOME")
    return (Path(kept) if kept else Path.home() / ".cache") / "rmqpull-bench"


def _fetch(artifacts: tuple[Artifact, ...], folder: Path) -> None:
    """Lets Maven copy the jars. The folder appears when it is complete."""
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerMissing("Maven is not installed (on Debian or Ubuntu: apt-get install maven)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        pom = Path(work) / "pom.xml"
        pom.write_text(_POM.format("".join(map(Artifact.as_dependency, artifacts))), encoding="utf-8")
        copied = Path(work) / "jars"
        command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        try:
            done = subprocess.run(
                [*command, f"-DoutputDirectory={copied}"],
                capture_output=True,
                text=True,
                timeout=MAVEN_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise PeerMissing(f"Maven did not get {artifacts[0]} within {MAVEN_TIMEOUT_S} s") from None
        if done.returncode:
            raise PeerMissing(f"Maven could not get {', '.join(map(str, artifacts))}")
        copied.rename(folder)
