"""The arguments TOPIC and GROUP, which a shell completes with the names on the broker."""

from __future__ import annotations

import os
from typing import Any

import click
from click.shell_completion import CompletionItem

from rmqpull_broker.cli.connection import Connection
from rmqpull_client.cli.values import ENDPOINTS_DEFAULT
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc

COMPLETION_TIMEOUT_S = 1
"""Short, because the user waits at the prompt."""


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes the name of a topic."""
    response = _call(ctx, "ListTopics", rpc.ListTopicsRequest())
    names = [] if response is None else [summary.topic.name for summary in response.topics]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes the name of a group."""
    response = _call(ctx, "ListGroups", rpc.ListGroupsRequest())
    names = [] if response is None else [summary.group.name for summary in response.groups]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _call(ctx: click.Context, name: str, request: Any) -> Any | None:
    """Calls the broker that an unfinished command line names. Returns None without a quick response."""
    endpoints = ctx.params.get("endpoints") or os.environ.get("RMQPULL_ENDPOINTS") or ENDPOINTS_DEFAULT
    try:
        with Connection(endpoints, COMPLETION_TIMEOUT_S) as connection:
            return connection.admin(name, request)
    except click.ClickException:
        return None


topic_argument = click.argument("topic", shell_complete=complete_topics)
optional_topic_argument = click.argument("topic", required=False, shell_complete=complete_topics)
group_argument = click.argument("group", shell_complete=complete_groups)
