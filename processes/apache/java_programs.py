"""Java programs that use Apache's clients: compiled once, started as processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from processes.apache.releases import Release
from processes.apache.servers import JAVA
from processes.children import Child
from processes.java import compile_java, find_java, make_class_path

_FOR_JAVA_17 = ("--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED")
SHORT_LIVED = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
"""Options of the JVM for programs that live for seconds."""


def start_java(
    release: Release,
    program: str,
    log: Path,
    *,
    arguments: Sequence[str] = (),
    java_options: Sequence[str] = SHORT_LIVED,
    has_input: bool = False,
    more: Path | None = None,
) -> Child:
    """Starts a program of the folder ``java``, or a class of Apache's by its full name, with the clients of a release.

    ``more`` is a folder with programs that build on those. The end of the log file has the program's errors.
    Raises SoftwareMissing.
    """
    jars = release.fetch_client_jars()
    sources = [source for folder in (JAVA / "rmqpull", more) if folder for source in sorted(folder.glob("*.java"))]
    classes = compile_java(sources, jars)
    command = [find_java(), *java_options, *_FOR_JAVA_17, "-Drocketmq.client.logUseSlf4j=true"]
    command += [f"-Duser.home={log.parent}", f"-Drocketmq.home.dir={log.parent}"]
    command += [
        "-cp",
        make_class_path(*jars, classes, JAVA),
        program if "." in program else f"rmqpull.{program}",
        *arguments,
    ]
    return Child(f"Java program {program}", command, log, os.environ, folder=log.parent, has_input=has_input)
