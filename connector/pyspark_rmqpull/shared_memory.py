"""What the Python processes of one application share on one machine: servers that have answered, and routes of topics.

Spark plans and commits each micro-batch of a sink in a Python process that it may have just started. Such a process
has reached nothing itself, and the servers may be away. Spark's folder for temporary files belongs to one application,
and Spark removes it at its end.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from rmqpull_client.connection import Connection
from rmqpull_client.light_queues import find_route_topic
from rmqpull_client.transports.away import ANSWERED, AnsweredServers
from rmqpull_client.transports.reached import Reached, read_routes, write_routes

FILE_NAME = "rmqpull-answered"
_ROUTE_PREFIX = "rmqpull-route-"
_FOLDERS = "SPARK_LOCAL_DIRS"


class AnsweredFile:
    """See :class:`rmqpull_client.transports.away.Memory`. Without access to the file, it remembers nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, address: str) -> None:
        """Appends an address, unless the file has it."""
        if address not in self:
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(f"{address}\n")
            except OSError:
                return

    def __contains__(self, address: object) -> bool:
        try:
            return address in self._path.read_text("utf-8").splitlines()
        except (OSError, ValueError):
            return False


class RouteFiles:
    """The routes of topics in a cluster, each in a file. Without access to the files, it remembers nothing."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._folder = _find_folder(environment)

    def keep(self, connection: Connection, topics: Iterable[str]) -> None:
        """Keeps the routes of topics, as far as name servers return them now."""
        for name, text in write_routes(connection, topics).items() if self._folder is not None else ():
            path = self._find_path(connection, name)
            new = path.with_suffix(f".{os.getpid()}")
            with suppress(OSError):
                if not path.exists() or path.read_bytes() != text:
                    new.write_bytes(text)
                    new.replace(path)  # atomically, because other processes read it

    def recall(self, connection: Connection, topics: Iterable[str]) -> Reached:
        """Returns the routes that were kept."""
        texts: dict[str, bytes] = {}
        for name in (find_route_topic(connection, topic) for topic in topics) if self._folder is not None else ():
            with suppress(OSError):
                texts[name] = self._find_path(connection, name).read_bytes()
        return read_routes(texts)

    def _find_path(self, connection: Connection, name: str) -> Path:
        assert self._folder is not None, "the caller has checked it"
        digest = hashlib.sha256(f"{connection.name_servers} {name}".encode()).hexdigest()
        return self._folder / f"{_ROUTE_PREFIX}{digest[:32]}"


def share_memory(answered: AnsweredServers = ANSWERED, environment: Mapping[str, str] = os.environ) -> None:
    """Shares the servers that have answered with the application's other processes, if Spark has a folder for it."""
    if answered.shared is None and (folder := _find_folder(environment)) is not None:
        answered.share(AnsweredFile(folder / FILE_NAME))


def _find_folder(environment: Mapping[str, str]) -> Path | None:
    """Returns Spark's folder for the temporary files of this application."""
    folders = environment.get(_FOLDERS)
    return Path(folders.split(",")[0]) if folders else None
