"""The command line ``rmqpull``: RocketMQ without a JVM. Each command has a module in ``commands``.

Commands print to standard output, as a table for people or as JSON for programs. A failure is one sentence on standard
error and an exit code (``cli.output``). A module is loaded when its command is called, so that the help is fast.
"""

from __future__ import annotations

import click

import rmqpull_client
from rmqpull_client.cli.frame import LazyGroup
from rmqpull_client.cli.servers import add_server_options

COMMANDS = {
    "topics": "List the topics, with their queues and messages.",
    "topic": "Show a topic: its queues, their offsets, and their rates in messages per second.",
    "peek": "Show messages of a topic without consuming them.",
    "tail": "Show the newest messages of topics, and follow them.",
    "send": "Send messages from --body, or from FILE or standard input.",
    "export": "Write a topic to files in FOLDER, each with a part of one queue.",
    "copy": "Copy messages from topic to topic, also to another cluster.",
    "groups": "List the consumer groups, with the topics that they consume and their lag.",
    "lag": "Show how far consumer groups are behind.",
    "reset": "Set the consumer offsets of a group on a topic.",
    "completion": "Print a completion script for your shell.",
}


@click.group(
    cls=LazyGroup,
    summaries=COMMANDS,
    package="rmqpull_client.cli.commands",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    examples=[
        "rmqpull --name-servers 127.0.0.1:9876 topics",
        "rmqpull --endpoints 127.0.0.1:8081 peek orders --newest 3",
        "rmqpull --profile production tail orders -f --json",
    ],
)
@click.version_option(rmqpull_client.__version__, prog_name="rmqpull")
@add_server_options
def main(**servers: object) -> None:
    """RocketMQ from the shell, without a JVM: a cluster of Apache RocketMQ, its proxy, or rmqpull-broker.

    Flags that name servers may also follow the command. No command joins a consumer group or changes its offsets,
    unless it says so.

    Exit codes: 0 success; 1 refused or not found; 2 wrong usage; 3 server unreachable or too slow.
    """
