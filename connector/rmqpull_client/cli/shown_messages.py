"""Messages on the screen: rows of a table, lines that follow one another, and lines of JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from rmqpull_client.cli.message_lines import make_json_rows
from rmqpull_client.cli.output import format_cell, show_json, show_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqpull_client.cli.searching import Found

BODY_CHARACTERS = 120
"""How much of a body a terminal shows."""
_COLUMNS = ("storeTimestamp", "queue", "queueOffset", "tags", "keys", "properties", "body")


def show_messages(found: Sequence[Found], *, as_json: bool) -> None:
    """Prints messages as a table, or each as a line of JSON, which ``send`` reads."""
    messages = [_make_message(each) for each in found]
    if as_json:
        for message in messages:
            show_json(message)
    elif messages:
        show_table([_make_row(message) for message in messages], _COLUMNS)
    else:
        click.echo("no message found", err=True)


def show_line(found: Found, *, as_json: bool) -> None:
    """Prints a message on one line, with its topic: time, queue, offset, tag, keys and body."""
    message = _make_message(found)
    if as_json:
        show_json(message)
        return
    row = _make_row(message)
    cells = (format_cell(row.get(name)) for name in ("storeTimestamp", "queueOffset", "tags", "keys", "body"))
    store_time, *others = cells
    click.echo("  ".join((store_time, f"{found.queue}", *others)))


def _make_message(found: Found) -> dict[str, Any]:
    topic, broker_name, queue_id = found.queue
    return {"topic": topic, "brokerName": broker_name, "queueId": queue_id, **make_json_rows(found.row)[0]}


def _make_row(message: dict[str, Any]) -> dict[str, Any]:
    body = message["body"] if "body" in message else f"base64:{message['bodyBase64']}"
    if sys.stdout.isatty() and len(body) > BODY_CHARACTERS:
        body = f"{body[:BODY_CHARACTERS]}… ({len(body)} characters; --json prints all)"
    return {**message, "queue": f"{message['brokerName']}/{message['queueId']}", "body": body}
