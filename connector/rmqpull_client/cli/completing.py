"""The arguments TOPIC and GROUP, which a shell completes with the names that the servers have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from rmqpull_client.cli.servers import find_connection
from rmqpull_client.errors import RmqpullError

if TYPE_CHECKING:
    from rmqpull_client.transports.port import BrokerClient

TIMEOUT_MS = 1_000
"""Short, because the user waits at the prompt."""


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes the name of a topic."""
    return _complete(ctx, lambda client: client.list_topics(), incomplete)


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes the name of a consumer group."""
    return _complete(ctx, lambda client: client.list_groups(), incomplete)


def _complete(
    ctx: click.Context, list_names: Callable[[BrokerClient], list[str]], incomplete: str
) -> list[CompletionItem]:
    """Asks the servers that an unfinished command line names. Without a quick response there are no names."""
    from rmqpull_client.transports.choice import connect  # the help does not need it

    try:
        names = list_names(connect(replace(find_connection(ctx), request_timeout_ms=TIMEOUT_MS)))
    except (click.ClickException, RmqpullError):
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


topic_argument = click.argument("topic", shell_complete=complete_topics)
group_argument = click.argument("group", shell_complete=complete_groups)
