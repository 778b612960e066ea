"""The command line ``rmqpull-broker``: one module per command group, loaded when its command is called.

What a command says goes to standard output, as a table for people or as JSON for machines; every failure is one
sentence on standard error and an exit code (``cli.failures``).
"""

from __future__ import annotations

import click

import rmqpull_broker
from rmqpull_broker.cli.aliases import ALIASES, alias_command
from rmqpull_broker.cli.commands import LazyGroup

COMMANDS = {
    "serve": "Serve until SIGTERM or SIGINT.",
    "topic": "Create, change, describe and delete topics.",
    "group": "Consumer groups, their clients and their progress.",
    "send": "Send messages: --body, or one per line of FILE or of standard input.",
    "peek": "Look at messages of a topic without consuming them.",
    "lag": "How far consumer groups are behind.",
    "client": "Connected clients.",
    "lock": "Queue locks of consumer groups.",
    "fault": "Order faults for coming calls.",
    "clock": "The broker's clock, and how to move a manual one.",
    "log": "Read a data directory's commit log while no broker runs.",
    "broker": "The brokers of the process and their properties.",
    "health": "Exit with 0 when the broker serves, with 1 when it does not.",
    "completion": "Print the completion script of a shell.",
}


class MainGroup(LazyGroup):
    """Knows ``mqadmin``'s names too; they are taken, and not listed."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in ALIASES:
            return alias_command(self, cmd_name)
        return super().get_command(ctx, cmd_name)


@click.group(
    cls=MainGroup,
    summaries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    examples=[
        "rmqpull-broker serve --topic orders:8 --data-dir ./broker-data",
        "rmqpull-broker send --topic orders --body hello",
        "rmqpull-broker peek orders",
        "rmqpull-broker lag --watch",
    ],
)
@click.version_option(rmqpull_broker.__version__, prog_name="rmqpull-broker")
def main() -> None:
    """A RocketMQ broker in one process, for tests, demos and development.

    Every command but serve, log and completion asks a running broker: the one at 127.0.0.1:8081, unless
    RMQPULL_ENDPOINTS names another, or --endpoints, which goes behind the command (topic list --endpoints HOST:PORT).
    mqadmin's names for the same things (updateTopic, consumerProgress, ...) are understood as well.

    Exit codes: 0 done; 1 refused, or not found; 2 wrong usage; 3 the broker cannot be reached or does not answer.
    """
