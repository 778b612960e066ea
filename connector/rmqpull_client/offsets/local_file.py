"""A broadcasting group's offsets in a file of the driver's machine, where RocketMQ's clients look for it."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue
from rmqpull_client.offsets.table import format_offset_table, parse_offset_table

FILE_BYTES_MAX = 16 << 20
"""Some 100,000 queues; a larger file is none of ours."""

_logger = logging.getLogger(__name__)


class LocalFileOffsetStore:
    """``<directory>/<clientId>/<group>/offsets.json``, and the content before the last change in ``offsets.json.bak``.

    The file is read at every use, for others may write it between; but two who write it at the same moment do not see
    each other. Without ``client_id`` it is ``<host name>@DEFAULT``.
    """

    def __init__(self, directory: str, client_id: str | None, group: str) -> None:
        self._directory = directory
        self._client_id = client_id
        self._group = group

    @property
    def path(self) -> Path:
        """Where the file is, or will be."""
        client_id = self._client_id or f"{socket.gethostname()}@DEFAULT"
        return Path(os.path.expanduser(self._directory)) / client_id / self._group / "offsets.json"

    def committed(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The group's offsets; None where the file has none. Raises OptionError when it cannot be read."""
        offsets = self._load()
        return {queue: offsets.get(queue) for queue in queues}

    def commit(self, offsets: Mapping[MessageQueue, int], timeout_ms: int = 0) -> dict[MessageQueue, int]:
        """Sets the offsets of these queues and keeps those of others. Raises OptionError; nothing is waited for.

        Returns nothing: who shares the file does so on purpose.
        """
        path = self.path
        content = format_offset_table({**self._load(), **offsets})
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError, ValueError):  # what is damaged must not take the place of what is not
                _replace(_backup(path), format_offset_table(_read(path)))
            _replace(path, content)
        except OSError as error:
            raise OptionError(
                f"The group's offsets cannot be written to {path}: {error}. Choose another directory with option "
                "localOffsetStoreDir, or make room and allow the driver to write."
            ) from None
        return {}

    def _load(self) -> dict[MessageQueue, int]:
        """What the file says, or if it is damaged the one before. Where there is neither, the group has no offsets."""
        path = self.path
        damages = []
        for place in (path, _backup(path)):
            try:
                offsets = _read(place)
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                damages.append(f"{place}: {error}")
                continue
            if damages:
                _logger.warning("The group's offsets are read from %s, for they are damaged in %s", place, damages[0])
            return offsets
        if damages:
            raise OptionError(
                f"The group's offsets cannot be read ({'; '.join(damages)}). "
                "Repair the file, or remove it: then the group has no offsets."
            )
        return {}


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def _read(path: Path) -> dict[MessageQueue, int]:
    """The offsets in a file. Raises FileNotFoundError also for an empty one, OSError, and ValueError for another form.

    RocketMQ takes an empty file for none (rules 1.11).
    """
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if not content:
        raise FileNotFoundError(path)
    if len(content) > FILE_BYTES_MAX:
        raise ValueError(f"it is larger than {FILE_BYTES_MAX} bytes")
    return parse_offset_table(content.decode())


def _replace(path: Path, content: str) -> None:
    """Whoever reads, and whatever crashes: the file is the old one or the new one, whole."""
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
