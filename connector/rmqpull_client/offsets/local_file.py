"""The offsets of a broadcasting group in a local file, in the place and the format of RocketMQ's clients (rules 1.11).

The file looks like JSON, but its keys are objects, so JSON parsers refuse it::

    {"offsetTable": {{"brokerName": "broker-a", "queueId": 0, "topic": "orders"}: 12}}
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue

FILE_BYTES_MAX = 16 << 20
"""About 100,000 queues. A larger file is not an offset file."""

_Parse = Callable[[str, int], tuple[Any, int]]
"""Parses the value at an index of a text. Returns the value and the index of the next token."""
_BLANKS = re.compile(r"\s*")
_DECODER = json.JSONDecoder()
_OFFSETS = range(-(2**63), 2**63)

_logger = logging.getLogger(__name__)


class LocalFileOffsetStore:
    """Stores the offsets of one group in ``<directory>/<client_id>/<group>/offsets.json``.

    The previous content is kept in ``offsets.json.bak``. Each call reads the file again, because another process may
    have changed it; but if two processes change it at the same moment, one change is lost.

    Args:
        directory: A path, which may begin with ``~``.
        client_id: The folder of this client. None: ``<host name>@DEFAULT``.
        group: The name of the consumer group.
    """

    def __init__(self, directory: str, client_id: str | None, group: str) -> None:
        self._directory = directory
        self._client_id = client_id
        self._group = group

    @property
    def path(self) -> Path:
        """The path of the file, whether or not it exists."""
        client_id = self._client_id or f"{socket.gethostname()}@DEFAULT"
        return Path(os.path.expanduser(self._directory)) / client_id / self._group / "offsets.json"

    def get_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Returns the offset of each queue, or None if the file has none. Raises OptionError if it cannot be read."""
        offsets = self._load()
        return {queue: offsets.get(queue) for queue in queues}

    def set_offsets(self, offsets: Mapping[MessageQueue, int], timeout_ms: int = 0) -> dict[MessageQueue, int]:
        """Sets the offsets of these queues. The offsets of other queues stay the same. ``timeout_ms`` is not used.

        Returns an empty dict: clients that share a file do so on purpose. Raises OptionError if the file cannot be
        written.
        """
        path = self.path
        content = format_offset_table({**self._load(), **offsets})
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError, ValueError):  # a damaged file must not replace an intact backup
                _replace(_backup(path), format_offset_table(_read(path)))
            _replace(path, content)
        except OSError as error:
            raise OptionError(
                f"The consumer offsets cannot be written to {path}: {error}. Free space or permit writing there, or "
                "choose another directory (option localOffsetStoreDir)."
            ) from None
        return {}

    def _load(self) -> dict[MessageQueue, int]:
        """Reads the file, or its backup if the file is missing or damaged. Without both the group has no offsets."""
        path = self.path
        damages = []
        for candidate in (path, _backup(path)):
            try:
                offsets = _read(candidate)
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                damages.append(f"{candidate}: {error}")
                continue
            if damages:
                _logger.warning("Read the consumer offsets from %s, because of damage to %s", candidate, damages[0])
            return offsets
        if damages:
            raise OptionError(
                f"The consumer offsets cannot be read ({'; '.join(damages)}). "
                "Repair the file, or delete it to start without consumer offsets."
            )
        return {}


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def _read(path: Path) -> dict[MessageQueue, int]:
    """Returns the offsets in a file.

    Raises FileNotFoundError if it is missing or empty, which RocketMQ treats alike (rules 1.11). Raises OSError, and
    ValueError for another format.
    """
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if not content:
        raise FileNotFoundError(path)
    if len(content) > FILE_BYTES_MAX:
        raise ValueError(f"it is larger than {FILE_BYTES_MAX} bytes")
    return parse_offset_table(content.decode())


def _replace(path: Path, content: str) -> None:
    """Replaces a file atomically: readers, and a restart after a crash, see either the old content or the new one."""
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, prefix=path.name, suffix=".tmp", delete=False) as file:
        try:
            file.write(content.encode())
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(file.name)
            raise


def format_offset_table(offsets: Mapping[MessageQueue, int]) -> str:
    """Returns the text that RocketMQ 5.3.3 writes, byte by byte, except that the queues are sorted."""
    entries = [
        f'{{\n\t\t\t"brokerName":{_format_name(broker_name)},\n\t\t\t"queueId":{queue_id},'
        f'\n\t\t\t"topic":{_format_name(topic)}\n\t\t}}:{offset}'
        for (topic, broker_name, queue_id), offset in sorted(offsets.items())
    ]
    table = "{" + ",".join(entries) + "\n\t}" if entries else "{}"
    return f'{{\n\t"offsetTable":{table}\n}}'


def _format_name(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def parse_offset_table(text: str) -> dict[MessageQueue, int]:
    """Parses the text of an offset file, with any blanks and in any order.

    Raises ValueError with the place of the error.
    """
    try:
        fields, end = _parse_object(
            text, _skip_blanks(text, 0), lambda name: _parse_table if name == "offsetTable" else _parse_value
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if end < len(text):
        raise ValueError(f"unexpected text at character {end}")
    entries = dict(fields).get("offsetTable", [])
    return dict(_parse_entry(queue, offset) for queue, offset in entries)


def _parse_entry(queue: Any, offset: Any) -> tuple[MessageQueue, int]:
    if not isinstance(queue, dict):
        raise ValueError(f"expected a queue instead of {queue!r}")
    found = MessageQueue(*(queue.get(name) for name in ("topic", "brokerName", "queueId")))  # type: ignore[arg-type]
    if [type(part) for part in (*found, offset)] != [str, str, int, int] or offset not in _OFFSETS:
        raise ValueError(f"expected a queue and its offset instead of {queue!r} and {offset!r}")
    return found, offset


def _parse_object(text: str, at: int, parser_of: Callable[[Any], _Parse]) -> tuple[list[tuple[Any, Any]], int]:
    """Parses an object whose keys may be objects. ``parser_of`` returns the parser for the value of a key."""
    entries: list[tuple[Any, Any]] = []
    at = _expect(text, at, "{")
    while text[at : at + 1] != "}":
        if entries:
            at = _expect(text, at, ",")
        key, at = _parse_value(text, at)
        at = _expect(text, at, ":")
        value, at = parser_of(key if isinstance(key, str) else None)(text, at)
        entries.append((key, value))
    return entries, _expect(text, at, "}")


def _parse_table(text: str, at: int) -> tuple[list[tuple[Any, Any]], int]:
    return _parse_object(text, at, lambda _: _parse_value)


def _parse_value(text: str, at: int) -> tuple[Any, int]:
    value, at = _DECODER.raw_decode(text, at)
    return value, _skip_blanks(text, at)


def _expect(text: str, at: int, sign: str) -> int:
    if text[at : at + 1] != sign:
        raise ValueError(f"expected {sign!r} instead of {text[at : at + 1]!r} at character {at}")
    return _skip_blanks(text, at + 1)


def _skip_blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    assert match is not None
    return match.end()
