"""Apache's Java producer as a process, and what all Java programs have."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from processes.apache.java_programs import start_java
from processes.apache.oracle import to_text
from processes.apache.releases import Release
from processes.children import Child, ProcessFailed

RESPONSE_WITHIN_S = 60.0


class SendFailed(Exception):
    """Apache's producer raised an exception, or the broker's status is not SEND_OK."""


class JavaProgram:
    """A Java program that ends with the ``with`` block, or with this process."""

    def __init__(self, process: Child) -> None:
        self.process = process

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """Kills the process with SIGKILL. The broker learns that when the connection is closed, at once."""
        self.process.kill()

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def read_line(self, timeout_s: float) -> str | None:
        """Returns the next line of the output, or None when none comes in time. Raises ProcessFailed at the end."""
        try:
            return self.process.read_line(timeout_s)
        except EOFError:
            raise ProcessFailed(f"The {self.process.name} has ended.{self.process.log_end()}") from None


class JavaProducer(JavaProgram):
    """Apache's producer. ``folder`` gets its logs."""

    def __init__(self, release: Release, name_servers: str, folder: Path) -> None:
        super().__init__(start_java(release, "Produce", make_log(folder), arguments=[name_servers], has_input=True))

    def send(self, topic: str, body: bytes | str, **fields: Any) -> dict[str, Any]:
        """Sends a message and returns the producer's result: status, msgId, offsetMsgId, broker, queue, queueOffset.

        ``fields`` are tags, keys (with blanks between them), flag, delayLevel, properties, shardingKey, broker with
        queue, and transaction (COMMIT_MESSAGE, ROLLBACK_MESSAGE, UNKNOW). Raises SendFailed.
        """
        return self.send_all([make_message(topic, body, **fields)])[0]

    def send_all(self, messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Sends messages of :func:`make_message` one after the other. Returns their results. Raises SendFailed."""
        return self._request([*messages])

    def send_batch(self, messages: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Sends messages as one batch, to one queue. Returns its result. Raises SendFailed."""
        return self._request([{"batch": [*messages]}])[0]

    def _request(self, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        for request in requests:
            self.process.write_line(json.dumps(request))
        results = [self._read_result() for _ in requests]
        for result in results:
            if result.get("status") != "SEND_OK":
                raise SendFailed(result.get("error") or result["status"])
        return results

    def _read_result(self) -> dict[str, Any]:
        line = self.read_line(RESPONSE_WITHIN_S)
        if line is None:
            raise ProcessFailed(f"The {self.process.name} gave no result within {RESPONSE_WITHIN_S:.0f} s.")
        result: dict[str, Any] = json.loads(line)
        return result


def make_message(topic: str, body: bytes | str, **fields: Any) -> dict[str, Any]:
    """Returns a message for :class:`JavaProducer`."""
    return {"topic": topic, "body": to_text(body.encode() if isinstance(body, str) else body), **fields}


def make_log(folder: Path) -> Path:
    """Makes the folder of a program, and returns the path of its log."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "log"
