"""Many of Apache's clients in one process, whatever their kinds and their servers.

A JVM takes a second to start, a client some milliseconds. So tests share a JVM, and only those that kill clients have
one of their own.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from processes.apache.java_clients import RESPONSE_WITHIN_S, JavaProgram
from processes.apache.java_programs import SHORT_LIVED, start_java
from processes.apache.oracle import to_bytes
from processes.apache.releases import Release
from processes.children import Child, ProcessFailed
from tests.clients.programs.java import SOURCES

Kind = Literal["push", "producer", "litePull", "oldPull"]

# Members look each second whether queues or members have changed. By default they do it every 20 s.
_OPTIONS = (*SHORT_LIVED, "-Drocketmq.client.rebalance.waitInterval=1000")


class ClientRefused(Exception):
    """A call of a client raised an exception in Java. The text is that of the exception."""


@dataclass(frozen=True)
class Read:
    """A message as Apache's client shows it. ``stored`` has all of its fields, by the names of Java's MessageExt."""

    stored: Mapping[str, Any]

    @property
    def body(self) -> str:
        return to_bytes(self.stored["body"]).decode()

    @property
    def properties(self) -> Mapping[str, str]:
        properties: Mapping[str, str] = self.stored["properties"]
        return properties

    @property
    def queue(self) -> int:
        return int(self.stored["queueId"])

    @property
    def offset(self) -> int:
        return int(self.stored["queueOffset"])

    @property
    def attempts(self) -> int:
        """How often the message was consumed before."""
        return int(self.stored["reconsumeTimes"])


class ManyClients(JavaProgram):
    """A process with clients: a program that speaks as `Clients.java` does."""

    def __init__(self, process: Child) -> None:
        super().__init__(process)
        self._consumed: defaultdict[str, list[Read]] = defaultdict(list)

    def start(self, kind: Kind, name: str, name_servers: str, group: str, **options: Any) -> OneClient:
        """Starts a client. The class of its kind, or the Go program, has the options. Raises ClientRefused."""
        self.call(name, "start", kind=kind, nameServers=name_servers, group=group, **options)
        return OneClient(self, name)

    def call(self, client: str, call: str, **fields: Any) -> Any:
        """Calls a client and returns the result. Raises ClientRefused, and ProcessFailed when the process has ended."""
        if not self.process.is_running:
            raise ProcessFailed(f"The {self.process.name} has ended, and with it {client}.")
        self.process.write_line(json.dumps({"client": client, "call": call, **fields}))
        deadline = time.monotonic() + RESPONSE_WITHIN_S
        while True:
            response = self._receive(deadline - time.monotonic())
            if response is None:
                raise ProcessFailed(f"{client} gave no result of {call} within {RESPONSE_WITHIN_S:.0f} s.")
            if "error" in response:
                raise ClientRefused(response["error"])
            if "result" in response:
                return response["result"]

    def consumed(self, client: str) -> list[Read]:
        """Returns what a push consumer has consumed so far, each time that it was consumed."""
        with suppress(ProcessFailed):  # a killed process: what it printed stays known
            while self._receive(0) is not None:
                pass
        return self._consumed[client]

    def _receive(self, timeout_s: float) -> dict[str, Any] | None:
        """Takes the next line, and keeps it if it is a consumed message. Returns None if there is no line."""
        line = self.read_line(max(timeout_s, 0.001))
        if line is None:
            return None
        received: dict[str, Any] = json.loads(line)
        if "consumed" in received:
            self._consumed[received["client"]].append(Read(received["consumed"]))
        return received


class JavaClients(ManyClients):
    """A JVM with clients of a release. ``folder`` gets its log, and the offsets of groups that broadcast."""

    def __init__(self, release: Release, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "log"
        super().__init__(start_java(release, "Clients", log, java_options=_OPTIONS, has_input=True, more=SOURCES))


@dataclass(frozen=True)
class OneClient:
    """One client in a process of many."""

    process: ManyClients
    name: str

    def call(self, call: str, **fields: Any) -> Any:
        """Calls it and returns the result. Raises ClientRefused."""
        return self.process.call(self.name, call, **fields)

    def shut_down(self, *, in_background: bool = False) -> None:
        """Ends the client as its users do. It may take three seconds; in the background, this returns at once."""
        self.call("shutdown", inBackground=in_background)

    @property
    def consumed(self) -> list[Read]:
        """What a push consumer has consumed so far."""
        return self.process.consumed(self.name)
