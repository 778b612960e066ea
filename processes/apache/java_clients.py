"""Apache's Java clients as processes: a producer, consumers, and `mqadmin`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from processes.apache.calls import Credentials
from processes.apache.java_programs import SHORT_LIVED, start_java
from processes.apache.oracle import to_text
from processes.apache.releases import Release
from processes.apache.servers import JAVA
from processes.children import Child, ProcessFailed

RESPONSE_WITHIN_S = 60.0
ENDED_WITHIN_S = 60.0


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
    """Apache's producer. ``folder`` gets its logs. Bodies of ``compress_from_bytes`` and more are compressed."""

    def __init__(
        self,
        release: Release,
        name_servers: str,
        folder: Path,
        *,
        credentials: Credentials | None = None,
        compress_from_bytes: int = 4096,
        java_options: Sequence[str] = SHORT_LIVED,
    ) -> None:
        arguments = [name_servers, str(compress_from_bytes), *_keys(credentials)]
        super().__init__(
            start_java(release, "Produce", _log(folder), arguments=arguments, java_options=java_options, has_input=True)
        )

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


class JavaConsumer(JavaProgram):
    """One of Apache's consumers, which is ready when this returns.

    Kind `push` is a member of the group and acknowledges each message; `retry` is a member that sends each back to be
    retried; `pull` reads all queues from their begin, without a filter and without consumer offsets, but its
    heartbeats make it a member too.
    """

    def __init__(
        self,
        release: Release,
        name_servers: str,
        folder: Path,
        topic: str,
        group: str,
        *,
        kind: Literal["push", "retry", "pull"] = "push",
        expression: str = "*",
        expression_type: Literal["TAG", "SQL92"] = "TAG",
        credentials: Credentials | None = None,
    ) -> None:
        arguments = [name_servers, kind, group, topic, expression_type, expression, *_keys(credentials)]
        super().__init__(start_java(release, "Consume", _log(folder), arguments=arguments, has_input=True))
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


def make_message(topic: str, body: bytes | str, **fields: Any) -> dict[str, Any]:
    """Returns a message for :class:`JavaProducer`."""
    return {"topic": topic, "body": to_text(body.encode() if isinstance(body, str) else body), **fields}


def run_mqadmin(
    release: Release, name_servers: str, folder: Path, *arguments: str, credentials: Credentials | None = None
) -> str:
    """Runs Apache's `mqadmin` and returns what it prints. It takes 1 to 2 s. Raises ProcessFailed."""
    log = _log(folder)
    (folder / "conf").mkdir(exist_ok=True)
    (folder / "conf" / "logback_tools.xml").write_bytes((JAVA / "logback.xml").read_bytes())  # 4.x needs it
    if credentials is not None:
        keys = f"accessKey: {credentials.access_key}\nsecretKey: {credentials.secret_key}\n"
        (folder / "conf" / "tools.yml").write_text(keys, encoding="utf-8")
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


def _log(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "log"


def _keys(credentials: Credentials | None) -> list[str]:
    return [] if credentials is None else [credentials.access_key, credentials.secret_key]
