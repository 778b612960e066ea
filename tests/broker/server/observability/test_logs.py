"""Log lines as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from rmqpull_broker.server.observability.logs import JsonFormatter, TextFormatter, set_up_logs


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger that passes records to the root logger, whose handlers are restored at the end."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield logging.getLogger("rmqpull_broker.test_logs")
    root.handlers[:] = handlers
    root.setLevel(level)


def record(message: str, *arguments: object, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("rmqpull_broker.x", logging.WARNING, "x.py", 1, message, arguments, None)
    made.created = 1_700_000_000.1239
    vars(made).update(fields)
    return made


def test_a_json_line_is_one_object_with_the_fields_of_the_caller() -> None:
    line = JsonFormatter().format(record("took %d\nlines", 2, rpc="PullMessage", ms=1.5, where=object))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.123Z",
        "level": "WARNING",
        "logger": "rmqpull_broker.x",
        "message": "took 2\nlines",
        "rpc": "PullMessage",
        "ms": 1.5,
        "where": "<class 'object'>",
    }


def test_a_text_line_ends_with_the_fields_that_are_not_empty() -> None:
    line = TextFormatter().format(record("took %d\nlines", 2, rpc="PullMessage", topic=""))
    assert line == "2023-11-14T22:13:20.123Z WARNING rmqpull_broker.x: took 2\\nlines rpc=PullMessage"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_an_error_comes_with_its_traceback(logger: logging.Logger, log_format: str) -> None:
    stream = io.StringIO()
    set_up_logs(stream, log_format, "error")
    try:
        raise ZeroDivisionError("a mistake of ours")
    except ZeroDivisionError:
        logger.exception("it failed")
    text = json.loads(stream.getvalue())["error"] if log_format == "json" else stream.getvalue()
    assert "Traceback" in text
    assert "ZeroDivisionError: a mistake of ours" in text


@pytest.mark.parametrize(
    ("level", "seen"), [("debug", ["debug", "info", "error"]), ("info", ["info", "error"]), ("error", ["error"])]
)
def test_a_log_level_hides_lower_levels(logger: logging.Logger, level: str, seen: list[str]) -> None:
    stream = io.StringIO()
    set_up_logs(stream, "json", level)
    for name in ("debug", "info", "error"):
        getattr(logger, name)(name)
    logging.getLogger("asyncio").debug("using a selector")
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == seen
