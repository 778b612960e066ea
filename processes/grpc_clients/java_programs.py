"""Java programs that use Apache's gRPC client: compiled once, started as processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from processes.children import Child
from processes.java import compile_java, find_java, make_class_path
from processes.maven import Artifact, fetch_jars

SOURCES = Path(__file__).parent / "java" / "rmqpull"
CLIENT = Artifact("org.apache.rocketmq", "rocketmq-client-java", "5.2.0")
"""It contains all that it depends on."""
_JSON = Artifact("com.alibaba.fastjson2", "fastjson2", "2.0.53")
SHORT_LIVED = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
"""Options of the JVM for programs that live for seconds."""


def start_grpc_java(
    program: str,
    folder: Path,
    *,
    arguments: Sequence[str] = (),
    java_options: Sequence[str] = SHORT_LIVED,
    has_input: bool = False,
    sources: Path = SOURCES,
) -> Child:
    """Starts a program of the folder ``sources``. The file ``log`` in ``folder`` gets what it and the client log.

    The class of the program says what it reads and prints. Raises SoftwareMissing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    jars = fetch_jars([CLIENT, _JSON])
    classes = compile_java(sorted(sources.glob("*.java")), jars)
    command = [find_java(), *java_options, f"-Duser.home={folder}", f"-Drocketmq.log.root={folder}"]
    command += ["-Drocketmq.log.level=warn", "-cp", make_class_path(*jars, classes), f"rmqpull.{program}", *arguments]
    return Child(f"Java program {program}", command, folder / "log", os.environ, folder=folder, has_input=has_input)
