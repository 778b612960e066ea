"""Java: where it is, and small Java programs that are compiled once into the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

from processes.maven import Artifact, SoftwareMissing, cache, fetch_jars, made_once

COMPILER = Artifact("org.eclipse.jdt", "ecj", "3.33.0")
"""A compiler that needs no JDK: `make set-up` installs only the runtime."""
COMPILE_TIMEOUT_S = 120
_JAR = "programs.jar"


def find_java() -> str:
    """Returns the path of `java`: that of JAVA_HOME, else the one on PATH. Raises SoftwareMissing."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise SoftwareMissing("Java is not installed")
    return java


def make_class_path(*parts: Path) -> str:
    """Returns jars and folders of classes as an argument for `java -cp`."""
    return os.pathsep.join(map(str, parts))


def compile_java(sources: Sequence[Path], jars: Sequence[Path]) -> Path:
    """Compiles Java programs for Java 17. Returns a jar of their classes.

    It is a jar because archives of classes (``processes/apache/class_archives.py``) allow no folders. The cache keeps
    it under the hash of the sources and of the names of the jars. Raises SoftwareMissing when Java or the compiler is
    missing, and RuntimeError with the compiler's output when a source has an error.
    """
    known_by = hashlib.sha256(str(COMPILER).encode())
    for part in (*(source.read_bytes() for source in sources), *(jar.name.encode() for jar in jars)):
        known_by.update(len(part).to_bytes(8, "big") + part)
    folder = cache() / f"programs-{known_by.hexdigest()[:16]}"
    with made_once(folder) as work:
        if work is not None:
            classes = work / "classes"
            _compile(sources, jars, classes)
            with zipfile.ZipFile(work / _JAR, "w") as jar:
                for file in sorted(classes.rglob("*.class")):
                    jar.write(file, file.relative_to(classes))
            shutil.rmtree(classes)
    return folder / _JAR


def _compile(sources: Sequence[Path], jars: Sequence[Path], to: Path) -> None:
    command = [
        find_java(),
        "-jar",
        str(fetch_jars([COMPILER])[0]),
        "-17",
        "-nowarn",
        "-proc:none",
        "-encoding",
        "UTF-8",
    ]
    done = subprocess.run(
        [*command, "-cp", make_class_path(*jars), "-d", str(to), *map(str, sources)],
        capture_output=True,
        text=True,
        timeout=COMPILE_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"The Java programs do not compile:\n{done.stderr or done.stdout}")
