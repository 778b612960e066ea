"""The flags that give columns to messages that lack them."""

from __future__ import annotations

import click

from rmqpull_client.cli.frame import flags
from rmqpull_client.cli.values import PAIR

message_options = flags(
    click.option("--tag", metavar="TAG", help="Tag of messages without one."),
    click.option("--key", "keys", multiple=True, metavar="KEY", help="Key of messages without keys; may be repeated."),
    click.option(
        "--property",
        "properties",
        type=PAIR,
        multiple=True,
        metavar="NAME=VALUE",
        help="Property of messages without properties; may be repeated.",
    ),
    click.option("--message-group", metavar="GROUP", help="Message group of messages without one (FIFO topics)."),
)
