"""Apache's `mqadmin`: one command, or one process that runs many."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType

from processes.apache.java_programs import SHORT_LIVED, start_java
from processes.apache.releases import Release
from processes.apache.servers import JAVA
from processes.children import ProcessFailed
from tests.clients.programs.java import SOURCES

ENDED_WITHIN_S = 60.0


class Mqadmin:
    """Runs commands for a cluster. It ends with the ``with`` block, or with this process. ``folder`` gets its log."""

    def __init__(self, release: Release, name_servers: str, folder: Path) -> None:
        log = _make_folder(folder)
        options = [*SHORT_LIVED, f"-Drocketmq.namesrv.addr={name_servers}"]
        self._process = start_java(release, "Admin", log, java_options=options, has_input=True, more=SOURCES)

    def run(self, *arguments: str) -> list[str]:
        """Runs a command, such as ``run("topicStatus", "-t", "orders")``, and returns the lines that it prints.

        The lines of an exception are among them. Raises ProcessFailed.
        """
        self._process.write_line(json.dumps(arguments))
        try:
            line = self._process.read_line(ENDED_WITHIN_S)
        except EOFError:
            line = None
        if line is None:
            raise ProcessFailed(f"mqadmin {' '.join(arguments)} gave no result.{self._process.log_end()}")
        (printed,) = json.loads(line)
        return [line.rstrip() for line in str(printed).splitlines()]

    def __enter__(self) -> Mqadmin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()


def run_mqadmin(release: Release, name_servers: str, folder: Path, *arguments: str) -> str:
    """Runs Apache's `mqadmin` and returns what it prints. It takes 1 to 2 s. Raises ProcessFailed."""
    log = _make_folder(folder)
    process = start_java(
        release,
        "org.apache.rocketmq.tools.command.MQAdminStartup",
        log,
        arguments=arguments,
        java_options=[*SHORT_LIVED, f"-Drocketmq.namesrv.addr={name_servers}"],
    )
    try:
        process.wait(ENDED_WITHIN_S)
        return "\n".join(process.read_rest())
    finally:
        process.kill()


def _make_folder(folder: Path) -> Path:
    """Makes the folder of a process, and returns the path of its log."""
    (folder / "conf").mkdir(parents=True, exist_ok=True)
    (folder / "conf" / "logback_tools.xml").write_bytes((JAVA / "logback.xml").read_bytes())  # 4.x needs it
    return folder / "log"
