"""Log lines for people (``text``) or programs (``json``): one line each, with the fields that were passed as ``extra``.

The metadata of calls is never logged: it may contain credentials.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, TextIO

_OWN_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object: ``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message``, the fields, and ``error`` with a
    traceback when there is one.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Formats a record as one line."""
        line: dict[str, Any] = {
            "time": _time_of(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_fields_of(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """``2026-01-31T12:00:00.000Z INFO logger: message key=value``, and a traceback on separate lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Formats a record as one line, plus its traceback if there is one."""
        fields = "".join(f" {name}={value}" for name, value in _fields_of(record).items() if value != "")
        message = record.getMessage().replace("\n", "\\n")
        line = f"{_time_of(record)} {record.levelname} {record.name}: {message}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


_FORMATTERS: Mapping[str, type[logging.Formatter]] = {"text": TextFormatter, "json": JsonFormatter}


def set_up_logs(stream: TextIO, log_format: str, level: str) -> None:
    """Writes the log of this process to a stream, from ``level`` upwards; format and level are as in the settings."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_FORMATTERS[log_format]())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    # Their debug lines are too many, and are about the internals of event loops.
    for name in ("asyncio", "grpc"):
        logging.getLogger(name).setLevel(max(logging.INFO, logging.getLogger().level))


def _time_of(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields_of(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _OWN_ATTRIBUTES}
