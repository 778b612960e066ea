"""The command line ``rmqpull-broker``. Each command has a module in ``commands``, which is loaded when it is called.

Commands print to standard output, as a table for people or as JSON for programs. A failure is one sentence on standard
error and an exit code (``cli.output``).
"""

from __future__ import annotations

import click

import rmqpull_broker
from rmqpull_broker.cli.aliases import ALIASES, alias_command
from rmqpull_client import cli as client_cli
from rmqpull_client.cli.frame import LazyGroup
from rmqpull_client.cli.values import ENDPOINTS_DEFAULT

CLIENT_COMMANDS = {
    name: summary for name, summary in client_cli.COMMANDS.items() if name not in ("topic", "completion")
}
"""The commands of ``rmqpull`` that are commands here too. Command ``topic`` has that of its name."""
COMMANDS = {
    "serve": "Serve until SIGTERM or SIGINT.",
    "topic": "Show a topic; create, change, describe and delete topics.",
    "group": "Create, change, describe and delete consumer groups.",
    **CLIENT_COMMANDS,
    "in-flight": "Show the messages that consumers have received and not acknowledged.",
    "client": "List connected clients.",
    "lock": "List, take and release queue locks of consumer groups.",
    "fault": "Inject faults into calls.",
    "clock": "Show the broker's clock, or advance a manual one.",
    "log": "Print or verify a data directory while no broker uses it.",
    "broker": "Show the brokers and their properties; apply retention.",
    "health": "Exit with 0 if the broker serves, otherwise with 1.",
    "completion": "Print a completion script for your shell.",
}


class MainGroup(LazyGroup):
    """Also has commands of ``rmqpull``, and accepts the names of ``mqadmin``'s commands, which are not listed."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in ALIASES:
            return alias_command(self, cmd_name)
        if cmd_name in CLIENT_COMMANDS:
            return client_cli.main.get_command(ctx, cmd_name)
        return super().get_command(ctx, cmd_name)


@click.group(
    cls=MainGroup,
    summaries=COMMANDS,
    package="rmqpull_broker.cli.commands",
    program="rmqpull-broker",
    default_servers={"endpoints": ENDPOINTS_DEFAULT},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    examples=[
        "rmqpull-broker serve --topic orders:8 --data-dir ./broker-data",
        "rmqpull-broker send orders --body hello",
        "rmqpull-broker peek orders",
        "rmqpull-broker lag --watch",
    ],
)
@click.version_option(rmqpull_broker.__version__, prog_name="rmqpull-broker")
def main() -> None:
    """A RocketMQ broker in one process, for tests, demos and development.

    The commands serve, log and completion work alone. All others call a running broker at 127.0.0.1:8081. Set another
    address with RMQPULL_ENDPOINTS, or with --endpoints after the command: topics --endpoints HOST:PORT. The names
    of mqadmin's commands (updateTopic, consumerProgress, ...) work too.

    Exit codes: 0 success; 1 refused or not found; 2 wrong usage; 3 broker unreachable or too slow.
    """
