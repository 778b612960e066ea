"""Apache's Java consumers as processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from processes.apache.java_clients import RESPONSE_WITHIN_S, JavaProgram, make_log
from processes.apache.java_programs import start_java
from processes.apache.releases import Release
from processes.children import ProcessFailed
from tests.clients.programs.java import SOURCES


class JavaConsumer(JavaProgram):
    """One of Apache's consumers, which is ready when this returns.

    Kind `push` is a member of the group and acknowledges each message; `pull` reads all queues from their begin,
    without consumer offsets, but its heartbeats make it a member too.
    """

    def __init__(
        self,
        release: Release,
        name_servers: str,
        folder: Path,
        topic: str,
        group: str,
        *,
        kind: Literal["push", "pull"] = "push",
    ) -> None:
        arguments = [name_servers, kind, group, topic]
        super().__init__(
            start_java(release, "Consume", make_log(folder), arguments=arguments, has_input=True, more=SOURCES)
        )
        if self.read_line(RESPONSE_WITHIN_S) != "ready":
            self.kill()
            raise ProcessFailed(f"The {self.process.name} was not ready in time.{self.process.log_end()}")

    def read(self, count: int, timeout_s: float = RESPONSE_WITHIN_S) -> list[dict[str, Any]]:
        """Returns the next messages, in the form of ``JavaOracle.decode_messages`` and with ``broker``.

        Raises ProcessFailed when a message takes longer than ``timeout_s``.
        """
        messages: list[dict[str, Any]] = []
        for _ in range(count):
            line = self.read_line(timeout_s)
            if line is None:
                raise ProcessFailed(f"Message {len(messages) + 1} of {count} has not come within {timeout_s:.0f} s.")
            messages.append(json.loads(line))
        return messages
