"""Apache's gRPC clients of four languages, driven by the same calls.

    with GrpcClients(start_python(folder)) as python:
        producer = python.start("producer", "127.0.0.1:8081", topics=["orders"])
        producer.call("send", topic="orders", body="first")
        consumer = python.start("push", "127.0.0.1:8081", group="readers", subscriptions={"orders": "*"})
        consumer.consumed                                  # all that it has consumed so far

The programs have the calls and their fields in their docstrings. They are the same in all languages; what a library
cannot do is refused with `unsupported`.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Literal

from processes.children import Child, ProcessFailed
from processes.grpc_clients.java_programs import start_grpc_java
from processes.grpc_clients.lacks import Language
from tests.clients.programs.grpc.node_programs import start_node
from tests.clients.programs.grpc.python_programs import start_python
from tests.clients.programs.grpc.rust_programs import start_rust

Kind = Literal["producer", "simple", "push", "litePush"]
ANSWERED_WITHIN_S = 300.0  # one call may send 100,000 messages
_LOOK_S = 0.5


class ClientRefused(Exception):
    """A call raised an exception in its language. The text is that of the exception."""


@dataclass(frozen=True)
class Received:
    """A message as a client shows it."""

    shown: Mapping[str, Any]

    @property
    def message_id(self) -> str:
        return str(self.shown["messageId"])

    @property
    def body(self) -> str:
        return str(self.shown["body"])

    @property
    def handle(self) -> str:
        return str(self.shown["handle"])

    @property
    def attempt(self) -> int:
        """How often the message was delivered, this time included."""
        return int(self.shown["attempt"])

    @property
    def properties(self) -> Mapping[str, str]:
        properties: Mapping[str, str] = self.shown["properties"]
        return properties


class GrpcClients:
    """A process with clients of one language. Several threads may call: a call waits for those of its client only."""

    def __init__(self, process: Child) -> None:
        self.process = process
        self._numbers = itertools.count()
        self._answers: defaultdict[str, SimpleQueue[dict[str, Any]]] = defaultdict(SimpleQueue)
        self._consumed: defaultdict[str, list[Received]] = defaultdict(list)
        self._writing = threading.Lock()
        self._calling: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        threading.Thread(target=self._read, daemon=True).start()

    def start(self, kind: Kind, endpoints: str, **options: Any) -> GrpcClient:
        """Starts a client at ``host:port``. Raises ClientRefused."""
        client = GrpcClient(self, f"{kind}-{next(self._numbers)}")
        client.call("start", kind=kind, endpoints=endpoints, **options)
        return client

    def call(self, client: str, call: str, **fields: Any) -> Any:
        """Calls a client and returns the result. Raises ClientRefused, and ProcessFailed when the process has ended."""
        if not self.process.is_running:
            raise ProcessFailed(f"The {self.process.name} ended, and with them {client}.{self.process.log_end()}")
        with self._calling[client]:
            with self._writing:
                self.process.write_line(json.dumps({"client": client, "call": call, **fields}))
            answer = self._take_answer(client, call)
        if "error" in answer:
            raise ClientRefused(answer["error"])
        return answer["result"]

    def consumed(self, client: str) -> list[Received]:
        """Returns what a push consumer has consumed so far, each time that it was consumed."""
        return list(self._consumed[client])

    def count_consumed(self, client: str) -> int:
        """Returns how many messages a push consumer has consumed so far."""
        return len(self._consumed[client])

    def kill(self) -> None:
        """Kills the process with SIGKILL."""
        self.process.kill()

    def __enter__(self) -> GrpcClients:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _take_answer(self, client: str, call: str) -> dict[str, Any]:
        for _ in range(int(ANSWERED_WITHIN_S / _LOOK_S)):
            try:
                return self._answers[client].get(timeout=_LOOK_S)
            except Empty:
                if not self.process.is_running:
                    break
        raise ProcessFailed(f"{client} gave no result of {call}.{self.process.log_end()}")

    def _read(self) -> None:
        while True:
            try:
                line = self.process.read_line(ANSWERED_WITHIN_S)
            except EOFError:
                return
            if line is not None:
                received = json.loads(line)
                if "consumed" in received:
                    self._consumed[received["client"]].append(Received(received["consumed"]))
                else:
                    self._answers[received["client"]].put(received)


@dataclass(frozen=True)
class GrpcClient:
    """One client in a process of many."""

    process: GrpcClients
    name: str

    def call(self, call: str, **fields: Any) -> Any:
        """Calls it and returns the result. Raises ClientRefused."""
        return self.process.call(self.name, call, **fields)

    def receive(self, count_max: int = 32, invisible_ms: int = 10_000) -> list[Received]:
        """Receives with a simple consumer. It waits for the time that the consumer was started with."""
        return [Received(one) for one in self.call("receive", max=count_max, invisibleMs=invisible_ms)]

    def shut_down(self, *, in_background: bool = False) -> None:
        """Ends the client as its users do; in the background, this returns at once."""
        self.call("shutdown", inBackground=in_background)

    @property
    def consumed_count(self) -> int:
        """How many messages this push consumer has consumed so far."""
        return self.process.count_consumed(self.name)

    @property
    def consumed(self) -> list[Received]:
        """What a push consumer has consumed so far."""
        return self.process.consumed(self.name)


def _start_java(folder: Path) -> Child:
    return start_grpc_java("Clients", folder, has_input=True, sources=Path(__file__).parent / "java" / "rmqpull")


LANGUAGES: Mapping[Language, Callable[[Path], Child]] = {
    "python": start_python,
    "java": _start_java,
    "node": start_node,
    "rust": start_rust,
}
"""How the clients of a language start in a folder, which gets their logs. They raise SoftwareMissing."""
