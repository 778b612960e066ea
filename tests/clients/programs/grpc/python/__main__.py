"""Runs many of Apache's gRPC clients for Python in one process.

Reads one call per line, as JSON, and prints its result: {"client": name, "result": ...} or {"client": name, "error":
text}. What a push consumer gets is printed at once: {"client": name, "consumed": message}.

{"client": name, "call": "start", "kind": producer|simple|push, "endpoints": "host:port", ...} starts a client (with
"tls", one that speaks TLS), and {"client": name, "call": "shutdown"} ends it (with inBackground, it returns at once).
The classes of the clients have their other calls and options. Each client has a thread of its own: a call that waits
delays no other client.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TextIO

from tests.clients.programs.grpc.python.consumers import PushClient, SimpleClient
from tests.clients.programs.grpc.python.messages import Client, Request, Unsupported
from tests.clients.programs.grpc.python.producer import ProducerClient


class Clients:
    """The clients of this process, by their names."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._lock = threading.Lock()
        self._clients: dict[str, Client] = {}
        self._threads: dict[str, ThreadPoolExecutor] = {}

    def begin(self, request: Request) -> None:
        """Runs a call in the thread of its client. The result is printed."""
        name = request["client"]
        if name not in self._threads:
            self._threads[name] = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._threads[name].submit(self._respond, name, request)

    def _respond(self, name: str, request: Request) -> None:
        try:
            self._print(name, "result", self._call(name, request))
        except Unsupported as unknown:
            self._print(name, "error", f"unsupported: {unknown}")
        except Exception as error:  # noqa: BLE001 - whatever the library raises is the result
            traceback.print_exc()
            self._print(name, "error", f"{type(error).__name__}: {error}")

    def _call(self, name: str, request: Request) -> Any:
        if request["call"] == "start":
            self._clients[name] = self._start(name, request)
            return None
        if request["call"] == "shutdown":
            self._shut_down(name, request.get("inBackground", False))
            return None
        if name not in self._clients:
            raise KeyError(f"There is no client {name}.")
        return self._clients[name].call(request["call"], request)

    def _start(self, name: str, request: Request) -> Client:
        if request["kind"] == "producer":
            return ProducerClient(request)
        if request["kind"] == "simple":
            return SimpleClient(request)
        if request["kind"] == "push":
            return PushClient(request, lambda message: self._print(name, "consumed", message))
        raise Unsupported(f"kind {request['kind']}")

    def _shut_down(self, name: str, in_background: bool) -> None:
        client = self._clients.pop(name, None)
        if client is None:
            return
        end: Callable[[], object] = client.close
        if in_background:
            end = threading.Thread(target=client.close, daemon=True).start
        end()

    def _print(self, client: str, kind: str, what: Any) -> None:
        line = json.dumps({"client": client, kind: what})
        with self._lock:
            print(line, file=self._output, flush=True)


def main() -> None:
    """Serves until standard input ends: then the clients were shut down, or are meant to die."""
    clients = Clients(sys.stdout)
    sys.stdout = sys.stderr  # what libraries print is no result
    for line in sys.stdin:
        clients.begin(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main()
