"""Apache's Java clients of releases before 4.9, which lack most of what the other programs use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from processes.apache.java_programs import SHORT_LIVED
from processes.children import Child, ProcessFailed
from processes.java import compile_java, find_java, make_class_path
from processes.maven import Artifact, fetch_jars

SOURCE = Path(__file__).parent / "old" / "SendAndPull.java"
VERSIONS = ("4.3.2", "4.4.0", "4.5.0")
"""Those whose clients send to the port two below that of a broker (VIP channel, rules 4.12)."""
DONE_WITHIN_S = 120.0
# Their Netty knows Java up to 8.
_FOR_JAVA_17 = (
    "-Dio.netty.noUnsafe=true",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.nio", "sun.nio.ch", "java.lang", "java.util")
    ),
)


def send_and_pull(
    version: str, name_server: str, topic: str, group: str, bodies: Sequence[str], folder: Path
) -> list[str]:
    """Sends messages to a topic of one queue and reads them. Returns the lines that `SendAndPull.java` has printed.

    ``folder`` gets the log. Raises ProcessFailed and SoftwareMissing.
    """
    jars = fetch_jars([Artifact("org.apache.rocketmq", "rocketmq-client", version, is_alone=False)])
    classes = compile_java([SOURCE], jars)
    command = [
        find_java(),
        *SHORT_LIVED,
        *_FOR_JAVA_17,
        f"-Duser.home={folder}",
        "-cp",
        make_class_path(*jars, classes),
    ]
    command += ["rmqpull.old.SendAndPull", name_server, topic, group, *bodies]
    process = Child(f"Java client {version}", command, folder / "log", os.environ, folder=folder)
    try:
        lines = []
        while True:
            line = process.read_line(DONE_WITHIN_S)
            if line is None:
                raise ProcessFailed(f"The {process.name} was not done within {DONE_WITHIN_S:.0f} s.{process.log_end()}")
            lines.append(line)
    except EOFError:
        return lines
    finally:
        process.kill()
